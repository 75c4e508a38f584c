"""A run whose jobs were killed again and again: what each left is asked for side by side."""

import json
import os
import time
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tasks.lease import Holder, holder_of, save_holder
from tasks.plan import PlannedRun, make_plan
from tasks.protocol.storage import FsspecStorage
from tasks.reporting.evidence import load_attempts
from tasks.run import left_to_do, new_job
from tasks.running_jobs import unfinished_jobs
from tests.noted_calls import noted_calls
from tests.reporting import classify_spec, make_inputs

NUMBERS = range(1, 9)


@pytest.fixture
def planned(tmp_path: Path) -> PlannedRun:
    """Eight attempts, each on a machine that is no more, and none has left a result."""
    make_inputs(tmp_path / "in", files=1, rows=1)
    planned = make_plan(classify_spec(tmp_path))
    gap = left_to_do(planned, tried=False)
    for number in NUMBERS:
        job = new_job(planned, gap, number)
        gone = Holder(f"pod-{number}", 1, 0.0, time.time() - 3600)
        save_holder(planned.storage, f"{job.folder}/driver.json", gone)
        planned.storage.write(job.progress_file, json.dumps({"at": gone.at}).encode())
    return planned


@pytest.fixture
def together(
    planned: PlannedRun, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two who read such a file waits for the other: one by one they would never end.

    Each attempt has one, so that nobody is left to wait for itself.
    """
    name: str = request.param
    both, read = Barrier(2, timeout=60), FsspecStorage.read

    def waiting(storage: FsspecStorage, path: str) -> Any:
        if path.endswith(f"/{name}"):
            both.wait()
        return read(storage, path)

    monkeypatch.setattr(FsspecStorage, "read", waiting)


@pytest.mark.parametrize("together", ["job.json"], indirect=True)
@pytest.mark.usefixtures("together")
def test_a_report_looks_at_all_attempts_at_once(planned: PlannedRun) -> None:
    """Four files of each, one after the other: of 300 attempts a minute on an object store."""
    attempts = load_attempts(planned.storage, planned.run)
    assert [each.number for each in attempts] == [*NUMBERS]


@pytest.mark.parametrize("together", ["job.json"], indirect=True)
@pytest.mark.usefixtures("together")
def test_jobs_that_left_no_result_are_read_at_once(planned: PlannedRun) -> None:
    assert sorted(each.attempt for each in unfinished_jobs(planned.spec)) == [*NUMBERS]


@pytest.mark.parametrize("together", ["driver.json"], indirect=True)
@pytest.mark.usefixtures("together")
def test_drivers_of_all_attempts_are_asked_for_at_once(planned: PlannedRun) -> None:
    """Of a machine that is gone it takes six requests to see that."""
    for file in Path(planned.run.path).glob("attempts/*/*.json"):
        os.utime(file, (1, 1))
    assert holder_of(planned.storage, planned.run) is None


def test_of_a_run_that_somebody_holds_no_driver_is_asked_for(
    planned: PlannedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_holder(planned.storage, planned.run.lease, Holder("pod-9", 1, 0.0, time.time()))
    asked = noted_calls(monkeypatch, "read")
    holder = holder_of(planned.storage, planned.run)
    assert holder is not None
    assert holder.host == "pod-9"
    assert asked == [planned.run.lease]
