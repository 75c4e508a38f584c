"""Prefect's own server, which a run starts where nobody has named one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import yaml

from tests.flows.conftest import numbers as numbers  # a fixture
from tests.flows.conftest import spec_of
from tests.flows.jobs_cluster import await_that

SLOW = {"kind": "python", "class": "predictors:Double", "init": {"seconds": 2.0}}
INTERRUPTED = 130
END_SECONDS = 60.0
"""Without its server a flow tries for two and a half minutes to say how it ended."""


@pytest.mark.prefect
def test_ctrl_c_at_a_terminal_ends_a_run_and_then_its_server(numbers: Path) -> None:
    with at_a_terminal(numbers) as run:
        folder = numbers.parent / "out.state"
        await_that(lambda: any(folder.rglob("progress.json")), "no job has begun")
        (server,) = (
            each for each in psutil.Process(run.pid).children() if "uvicorn" in each.cmdline()
        )
        os.killpg(run.pid, signal.SIGINT)
        ended = await_that(lambda: run.poll() is not None, "the run does not end")
        assert run.stderr
        said = run.stderr.read()
    assert ended < END_SECONDS
    assert run.returncode == INTERRUPTED
    assert said.endswith("stopped; the next run goes on from what is recorded\n"), said
    assert not server.is_running()


@contextmanager
def at_a_terminal(numbers: Path) -> Iterator["subprocess.Popen[str]"]:
    """A run with a Prefect of its own, alone in a group of processes, as a terminal's jobs are."""
    file, spec = numbers.parent / "spec.yaml", spec_of(numbers, model=SLOW)
    file.write_text(yaml.safe_dump(spec.model_dump(mode="json", by_alias=True)))
    others = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment = {**others, "PREFECT_HOME": str(numbers.parent / "prefect")}
    command = [str(Path(sys.executable).with_name("batch-inference")), "run", str(file)]
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        try:
            yield run
        finally:
            with suppress(ProcessLookupError):  # all have ended
                os.killpg(run.pid, signal.SIGKILL)
