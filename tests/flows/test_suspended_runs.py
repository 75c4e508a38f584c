"""A run that is suspended, as by the button in Prefect's UI, lets go of what it holds."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flows.heartbeats import LEFT
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of
from tests.flows.jobs_cluster import PATIENCE_SECONDS, await_that
from tests.flows.test_heartbeats import heard
from tests.flows.test_scheduled_runs import execute_here, look, scheduled_run

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

BATCHES = 100


@contextmanager
def executing(run: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """A flow run at work in a process of its own, as a worker starts it."""
    from prefect.settings import PREFECT_API_URL

    environment = {**os.environ, "PREFECT_API_URL": PREFECT_API_URL.value() or ""}
    command = [str(Path(sys.executable).with_name("prefect")), "flow-run", "execute", str(run.id)]
    with (
        tempfile.TemporaryDirectory() as empty,
        subprocess.Popen(command, env=environment, cwd=empty) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def records(spec: BatchInferenceSpec) -> list[Path]:
    return list(Path(f"{spec.sink.path}.state/runs").glob("*/records/*.json"))


def test_it_stops_its_job_and_goes_on_where_somebody_resumes_it(numbers: Path) -> None:
    from prefect.client.orchestration import get_client
    from prefect.states import Suspended

    quick = numbers.parent / "quick"
    slow = {"class": "predictors:SlowUntil", "init": {"seconds": 1.5, "file": str(quick)}}
    stages = {"read": {"rows_per_batch": 1000 // BATCHES}}
    spec = spec_of(numbers, model={"kind": "python", **slow}, stages=stages)
    run = scheduled_run(spec)
    with get_client(sync_client=True) as client:
        with executing(run) as process:
            await_that(lambda: len(records(spec)) >= 2, "no batch is recorded")
            client.set_flow_run_state(run.id, Suspended())
            process.wait(PATIENCE_SECONDS)
        assert look(run).state.name == "Suspended"
        await_that(
            lambda: bool(heard(str(run.id), LEFT)), "its process did not say that it has left"
        )
        last = max(each["occurred"] for each in heard(str(run.id)))
        assert heard(str(run.id), LEFT)[0]["occurred"] > last
        assert len(records(spec)) < BATCHES / 2, "nobody pays for what nobody waits for"
        quick.touch()
        client.resume_flow_run(run.id)
    execute_here(run)
    assert look(run).state.name == "Completed"
    assert [row["id"] for row in published(spec)] == list(range(1000))
