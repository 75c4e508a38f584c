"""The Prefect server that `make up` starts, without the rest of the stack."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile

from prefect.events.worker import EventsWorker
from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

from deployments.stack.ports import any_free_port
from deployments.stack.processes import await_ready, end, start
from deployments.stack.services import prefect_server
from deployments.stack.state import State
from tasks.lease import Holder


@contextmanager
def stack_server(folder: Path, database: Path | None = None) -> Iterator[tuple[State, Path]]:
    """It, for this process too; gives its log as well.

    Args:
        folder: the stack's.
        database: a file that it begins with; None: Prefect sets one up, or the environment names
            another.
    """
    if database:
        copyfile(database, folder / "prefect.db")
    state = State(prefect_port=any_free_port(), ray_port=any_free_port())
    service, log = prefect_server(folder, state), folder / "logs/server.log"
    process = start(service, log)
    holder = Holder.of(process.pid)
    settings = {PREFECT_API_URL: state.api_url, PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}
    try:
        await_ready(service, holder, log)
        # Whoever tells of events holds on to the server that there was, and waits at the end of
        # the tests for one that is gone.
        EventsWorker.drain_all()
        with temporary_settings(settings):
            yield state, log
            EventsWorker.drain_all()
    finally:
        end([holder], 5)
        process.wait()
