"""A job that lost a node ends where nothing of it can go on; `make chaos` loses a real one."""

from types import SimpleNamespace
from typing import Any

import pytest

from tasks.errors import NoProgress
from tasks.ray_job import watch
from tasks.ray_job.job import Job
from tasks.ray_job.lost_room import STUCK_SECONDS, LostRoom
from tasks.ray_job.progress import JobStatus
from tasks.ray_job.watch import Watch
from tests.ray_job.test_own_machine import ELSEWHERE, job_of, spec

HEAD, NODE = {"CPU": 1.0}, {"CPU": 2.0}
GPU_NODE = {"CPU": 16.0, "GPU": 1.0}


def room_of(nodes: list[dict[str, float]], num_gpus: float = 0.0, **resources: Any) -> LostRoom:
    """A job's, as it began."""
    room = LostRoom(job_on_cluster(**resources), num_gpus)
    room.see(nodes)
    return room


def job_on_cluster(**resources: Any) -> Job:
    return job_of(spec(cluster=ELSEWHERE, resources={"max_replicas": 3, **resources}))


def test_replicas_that_have_all_cores_that_are_left_leave_none_to_read() -> None:
    room = room_of([HEAD, NODE, NODE])
    room.look([HEAD, NODE], 3, STUCK_SECONDS - 1)
    said = (
        "stage infer failed: no row has moved for 60 s since nodes were lost: 3 replicas and a "
        r"worker beside find no room \(at once 4 CPU cores must be free, and the cluster has 3\)"
    )
    with pytest.raises(NoProgress, match=said):
        room.look([HEAD, NODE], 3, STUCK_SECONDS)
    room.look([HEAD, NODE], 2, STUCK_SECONDS)  # there is room, and a batch takes its time


def test_a_replica_whose_gpu_is_lost_finds_no_place() -> None:
    room = room_of([HEAD, GPU_NODE, GPU_NODE], num_gpus=1.0)
    with pytest.raises(NoProgress, match="2 replicas and a worker beside find no room"):
        room.look([HEAD, GPU_NODE], 2, STUCK_SECONDS)


def test_where_nothing_was_lost_or_no_fewer_would_do_it_is_waited() -> None:
    """For an autoscaler's node, and for batches that take long."""
    room_of([HEAD, NODE]).look([HEAD, NODE], 3, 10 * STUCK_SECONDS)
    room_of([HEAD, NODE, NODE], min_replicas=3).look([HEAD, NODE], 3, 10 * STUCK_SECONDS)
    room_of([HEAD, NODE, NODE]).look([HEAD, NODE, NODE, NODE], 3, 10 * STUCK_SECONDS)


def test_the_executor_looks_where_nothing_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    job, nodes = job_on_cluster(), [[HEAD, NODE, NODE], [HEAD, NODE]]
    seen = SimpleNamespace(grow=lambda now, ask: ask())
    progress = SimpleNamespace(job=job, occupancy=seen, moved=100.0)
    monkeypatch.setattr(watch, "nodes_now", lambda: nodes[0])
    monkeypatch.setattr(watch, "status_of", lambda executor: JobStatus("infer"))
    monkeypatch.setattr(watch, "replicas_begun", lambda executor: 3)
    monkeypatch.setattr(Watch, "progress", progress)
    monkeypatch.setattr(Watch, "room", LostRoom(job, 0.0))
    Watch().status(None, 101.0)
    del nodes[0]
    Watch().status(None, 100.0 + STUCK_SECONDS / 2)
    with pytest.raises(NoProgress):
        Watch().status(None, 100.0 + STUCK_SECONDS)
