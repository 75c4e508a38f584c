"""A backfill whose process was killed while it compared rows: its job is stopped, not left."""

import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from prefect.client.orchestration import get_client
from prefect.flow_engine import run_flow
from prefect.runtime import flow_run
from prefect.states import Scheduled

from flows import preview, verify
from flows.backfill import backfill
from flows.verify import stop_verifications
from tasks.errors import RunStopped, StageFailed
from tasks.lease import Holder, save_holder
from tasks.plan import PlannedRun
from tasks.ray_job.job import Job
from tasks.run import left_to_do, next_attempt
from tasks.running_jobs import stop_jobs
from tasks.spec import BatchInferenceSpec
from tasks.timeouts import Deadline
from tests.flows.daily import daily_spec, put

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

DAY = datetime(2026, 1, 1)
SLOW = {"kind": "python", "class": "predictors:Double", "init": {"seconds": 0.001}}


@pytest.fixture
def outdated(tmp_path: Path) -> BatchInferenceSpec:
    """One that is published by another config."""
    put(tmp_path, f"{DAY:%Y-%m-%d}")
    backfill(daily_spec(tmp_path), DAY, DAY)
    return daily_spec(tmp_path, model=SLOW)


def job_of(planned: PlannedRun) -> Job:
    """That of the first attempt."""
    return next_attempt(planned, left_to_do(planned, tried=False)).job


def test_who_cancels_it_has_what_it_compared_stopped(
    outdated: BatchInferenceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, jobs = list[str](), list[Job]()

    def stop(spec: BatchInferenceSpec) -> None:
        asked.append(spec.sink.path)
        stop_jobs(spec)

    def die(planned: PlannedRun, _: Deadline) -> None:
        jobs.append(job_of(planned))
        # By the worker, once the process is gone.
        stop_verifications(backfill, SimpleNamespace(id=flow_run.parent_flow_run_id), None)
        assert not Path(jobs[0].folder).exists()
        raise RunStopped("killed")

    monkeypatch.setattr(preview, "stop_jobs", stop)
    monkeypatch.setattr(verify, "run_attempts", die)
    with pytest.raises(RunStopped, match="killed"):
        backfill(outdated, DAY, DAY, verify=True)
    assert asked == [job.spec.sink.path for job in jobs]
    assert stop_verifications in backfill.on_cancellation_hooks


def test_who_starts_it_again_stops_what_it_compared(
    outdated: BatchInferenceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = list[Job]()

    def die(planned: PlannedRun, _: Deadline) -> None:
        jobs.append(job_of(planned))
        gone = replace(Holder.of(os.getpid()), birth="another")
        save_holder(planned.storage, planned.run.lease, gone)
        raise StageFailed("killed")

    given = {"spec": outdated, "start": DAY, "end": DAY, "verify": True}
    with get_client(sync_client=True) as client:
        begun: Any = Scheduled()
        run = client.create_flow_run(backfill, parameters={}, state=begun)
        with monkeypatch.context() as dying:
            dying.setattr(verify, "run_attempts", die)
            dying.setattr(verify, "clear_away", lambda _: None)
            run_flow(backfill, flow_run=run, parameters=given, return_type="state")
        assert not Path(jobs[0].stopped_file).exists()
        again = client.read_flow_run(UUID(str(run.id)))
        run_flow(backfill, flow_run=again, parameters=given, return_type="state")
        ended = client.read_flow_run(UUID(str(run.id))).state
    assert Path(jobs[0].stopped_file).exists()
    assert ended
    assert ended.is_completed()
