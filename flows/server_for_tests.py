"""A Prefect server for the tests of a session, and the database that it begins with."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

import prefect
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.settings import (
    PREFECT_API_DATABASE_CONNECTION_URL,
    PREFECT_SERVER_ANALYTICS_ENABLED,
    PREFECT_SERVER_DATABASE_CONNECTION_URL,
    PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS,
    get_current_settings,
    temporary_settings,
)

from flows.own_server import await_answer, end, launch
from tasks.kinds.models.fetched_files import alone_with

PATIENCE_SECONDS = 300


def database_in(folder: Path) -> Path:
    """A database without a run, of this Prefect's; one that is there is taken.

    Prefect takes ten seconds to set one up, table by table and change by change; to copy it, none.
    """
    made = folder / f"prefect-{prefect.__version__}.db"
    with alone_with(made), TemporaryDirectory(dir=folder) as aside:
        if not made.exists():
            file = Path(aside, made.name)
            command = ["-P", "-m", "prefect", "server", "database", "upgrade", "--yes"]
            subprocess.run(
                [sys.executable, *command],
                env=os.environ | {PREFECT_SERVER_DATABASE_CONNECTION_URL.name: url_of(file)},
                stdout=subprocess.DEVNULL,
                check=True,
            )
            file.replace(made)
    return made


def url_of(file: Path) -> str:
    """What Prefect is told of a database."""
    return f"sqlite+aiosqlite:///{file}"


@contextmanager
def server_for_tests(database: Path) -> Iterator[None]:
    """A server for all flows of this process, which ends it.

    Prefect gives no signs of life to it: each flow would otherwise end on a full second only.

    Args:
        database: what it begins with; is left as it is.

    Raises:
        Unreachable: it does not start.
    """
    settings = get_current_settings()
    api, flows = settings.api, settings.flows
    before = api.url, flows.heartbeat_frequency
    with TemporaryDirectory(prefix="prefect-") as folder:
        process, address = launched(Path(copyfile(database, Path(folder, "prefect.db"))))
        try:
            # In place: `temporary_settings` are not those of threads that a test starts.
            api.url, flows.heartbeat_frequency = f"{address}/api", None
            yield
            # They would go on telling a server that is gone.
            APILogWorker.drain_all()
            EventsWorker.drain_all()
        finally:
            api.url, flows.heartbeat_frequency = before
            end(process)


def launched(database: Path) -> "tuple[subprocess.Popen[bytes], str]":
    """The process of a server that answers, and its address.

    Raises:
        Unreachable: it does not start.
    """
    own = {
        PREFECT_API_DATABASE_CONNECTION_URL: url_of(database),
        PREFECT_SERVER_ANALYTICS_ENABLED: False,
        PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: PATIENCE_SECONDS,
    }
    with temporary_settings(own):
        given = get_current_settings().to_environment_variables(exclude_unset=True)
        process, address = launch(given)
        try:
            await_answer(address)
        except BaseException:
            end(process)
            raise
    return process, address
