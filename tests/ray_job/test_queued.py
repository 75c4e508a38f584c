"""A job that has not begun says what it waits for, in its log and to whoever follows it."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.attempt import Attempt
from tasks.errors import NoProgress, Orphaned, RunStopped
from tasks.ray_job.follower_heartbeat import Followed, leave_sign
from tasks.ray_job.job import Job
from tasks.ray_job.progress import JobStatus
from tests.ray_job.test_own_machine import job_of, spec

CLUSTER = {"kind": "ray_jobs", "address": "http://127.0.0.1:9", "wait_for_nodes_seconds": 1800}


def remote_job(folder: Path, **changes: Any) -> Job:
    sink = {"kind": "parquet", "path": str(folder / "out")}
    return job_of(spec(cluster=CLUSTER, sink=sink, **changes))


def said(job: Job) -> Any:
    return json.loads(job.storage.read(job.progress_file))


def test_every_wait_before_the_first_row_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tasks.ray_job import cluster

    job, seen = remote_job(tmp_path), []

    def waits(what: str) -> Callable[[Job, Callable[[str], None]], None]:
        def wait(job: Job, tell: Callable[[str], None]) -> None:
            tell(what)
            tell(what)
            seen.append((said(job)["state"], said(job)["waits_for"]))

        return wait

    monkeypatch.setattr(cluster, "configure", lambda: None)
    monkeypatch.setattr(cluster, "counting_actor", lambda job: None)
    for name in ("await_turn", "await_room", "check_nodes"):
        monkeypatch.setattr(cluster, name, waits(name))
    cluster.run_on_ray(job)
    names = ["await_turn", "await_room", "check_nodes"]
    assert seen == [("queued", name) for name in names]
    assert capsys.readouterr().out.splitlines() == [f"the job waits for {name}" for name in names]


def test_a_storage_that_is_away_ends_no_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.ray_job.cluster import Queued

    job = remote_job(tmp_path)

    def fails(*_: Any) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(type(job.storage), "write", fails)
    monkeypatch.setattr(type(job.storage), "read", fails)
    followed = Followed(job)
    Queued(job, followed)("nodes")
    followed.since, followed.looked = -1e9, -1e9
    with pytest.raises(Orphaned):
        Queued(job, followed)("nodes")


@pytest.mark.parametrize(
    ("timeouts", "limit", "own"),
    [({}, 600, 1860), ({"no_progress_seconds": 4_000}, 4_000, 4_060)],
)
def test_a_jobs_own_guard_comes_after_the_runs(
    timeouts: dict[str, float], limit: float, own: float
) -> None:
    """Which lets a model be loaded for half an hour."""
    from tasks.ray_job.watch import refuse_standstill

    job = remote_job(Path("/nowhere"), timeouts=timeouts)
    nobody: Any = None
    assert Attempt(job, nobody).stall.limit_seconds == limit
    refuse_standstill(job, JobStatus("read"), own)
    with pytest.raises(NoProgress, match=f"stage read failed: no row has moved for {own + 1:.0f} "):
        refuse_standstill(job, JobStatus("read"), own + 1)


def test_rays_guard_which_sees_no_row_that_is_passed_over_ends_no_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tasks.ray_job import cluster

    context = SimpleNamespace()
    monkeypatch.setattr(cluster, "DataContext", SimpleNamespace(get_current=lambda: context))
    cluster.configure()
    assert context.execution_no_progress_timeout_s == -1


def test_a_job_that_is_told_to_stop_stops_though_somebody_follows_it(tmp_path: Path) -> None:
    job = remote_job(tmp_path)
    followed = Followed(job)
    followed.check()
    leave_sign(job)
    job.storage.write(job.stopped_file, b"")
    followed.looked = -1e9
    with pytest.raises(RunStopped, match="run again to go on"):
        followed.check()


def test_a_job_whose_follower_has_left_ends_before_it_counts_as_an_orphan(tmp_path: Path) -> None:
    job = remote_job(tmp_path)
    followed = Followed(job)
    leave_sign(job)
    followed.check()
    leave_sign(job, has_left=True)
    followed.looked = -1e9
    with pytest.raises(Orphaned, match="the run that followed this job has ended"):
        followed.check()
    again = Followed(job)
    leave_sign(job)
    again.check()
