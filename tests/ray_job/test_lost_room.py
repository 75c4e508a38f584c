"""A job that has no room to go on in ends; `make chaos` loses a real node."""

from types import SimpleNamespace
from typing import Any

import pytest

from tasks.errors import NoProgress
from tasks.ray_job import watch
from tasks.ray_job.job import Job
from tasks.ray_job.lost_room import STUCK_SECONDS, Replicas, refuse_without_room
from tasks.ray_job.progress import JobStatus
from tasks.ray_job.watch import Watch
from tests.ray_job.test_own_machine import ELSEWHERE, job_of, spec

HEAD, NODE = {"CPU": 1.0}, {"CPU": 2.0}
GPU_NODE = {"CPU": 8.0, "GPU": 1.0}
LONG = 100 * STUCK_SECONDS


def job_on_cluster(cluster: dict[str, Any] | None = None, **resources: Any) -> Job:
    """One that may have three replicas."""
    return job_of(spec(cluster=cluster or ELSEWHERE, resources={"max_replicas": 3, **resources}))


def test_replicas_that_have_all_cores_that_are_left_leave_none_to_read() -> None:
    job, now = job_on_cluster(), Replicas(begun=3, is_fed=True)
    refuse_without_room(job, 0.0, [HEAD, NODE], now, STUCK_SECONDS - 1)
    said = (
        "stage infer failed: no row has moved for 60 s: 3 replicas and a worker beside them have "
        r"no room, .* \(4 CPU cores must be free at the same time, but the cluster has 3"
    )
    with pytest.raises(NoProgress, match=said):
        refuse_without_room(job, 0.0, [HEAD, NODE], now, STUCK_SECONDS)
    two = Replicas(begun=2, is_fed=True)
    refuse_without_room(job, 0.0, [HEAD, NODE], two, LONG)  # there is room: a batch takes its time


def test_a_replica_whose_gpu_is_lost_finds_no_place() -> None:
    job, now = job_on_cluster(), Replicas(begun=2, unplaced=1)
    with pytest.raises(NoProgress, match="2 replicas and a worker beside them have no room"):
        refuse_without_room(job, 1.0, [HEAD, GPU_NODE], now, STUCK_SECONDS)


@pytest.mark.parametrize(
    ("resources", "now"),
    [
        # All is read, and they have all cores: a node that idled was taken away.
        ({"num_cpus": 8.0}, Replicas(begun=2)),
        # One has died, and is started anew where it was.
        ({"num_cpus": 8.0}, Replicas(begun=2, unplaced=1)),
        # Another attempt would want as many.
        ({"min_replicas": 3}, Replicas(begun=3, unplaced=1, is_fed=True)),
    ],
)
def test_a_healthy_job_is_left_to_take_its_time(resources: dict[str, Any], now: Replicas) -> None:
    refuse_without_room(job_on_cluster(**resources), 1.0, [GPU_NODE, GPU_NODE], now, LONG)


def test_long_batches_and_nodes_that_are_waited_for_have_longer() -> None:
    nodes, slow = [HEAD, NODE], Replicas(begun=3, is_fed=True, batch_seconds=30.0)
    refuse_without_room(job_on_cluster(), 0.0, nodes, slow, 140.0)
    with pytest.raises(NoProgress):
        refuse_without_room(job_on_cluster(), 0.0, nodes, slow, 150.0)
    jobs = {"kind": "ray_jobs", "address": "http://head:8265", "wait_for_nodes_seconds": 300}
    patient, quick = job_on_cluster(jobs), Replicas(3, is_fed=True)
    refuse_without_room(patient, 0.0, nodes, quick, 290.0)
    with pytest.raises(NoProgress):
        refuse_without_room(patient, 0.0, nodes, quick, 300.0)
    slowest = Replicas(begun=3, is_fed=True, batch_seconds=1_000.0)
    with pytest.raises(NoProgress):  # as long as any job may stand still
        refuse_without_room(job_on_cluster(), 0.0, nodes, slowest, 600.0)


@pytest.mark.parametrize("is_fed", [True, False])
def test_the_executor_looks_where_nothing_moves(
    is_fed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what a lost node had Ray has some read again, when all seems to be read."""
    job, lost = job_on_cluster(), [frozenset({"before"})]
    progress = SimpleNamespace(
        job=job, occupancy=SimpleNamespace(grow=lambda *_: None), moved=100.0
    )
    monkeypatch.setattr(watch, "nodes_now", lambda avoid=(): [HEAD, NODE])
    monkeypatch.setattr(watch, "nodes_lost", lambda: lost[-1])
    monkeypatch.setattr(watch, "status_of", lambda executor: JobStatus("infer"))
    monkeypatch.setattr(watch, "replicas_now", lambda executor: Replicas(3, is_fed=is_fed))
    monkeypatch.setattr(Watch, "progress", progress)
    monkeypatch.setattr(Watch, "lost_before", lost[0])
    Watch().status(None, 100.0 + STUCK_SECONDS / 2)
    if not is_fed:
        Watch().status(None, 100.0 + STUCK_SECONDS)
        lost.append(lost[0] | {"now"})
    with pytest.raises(NoProgress):
        Watch().status(None, 100.0 + STUCK_SECONDS)
