"""Replicas that Ray has killed for memory; that Ray really does is in `tests/chaos`."""

from types import SimpleNamespace

import pytest

from tasks.kinds.models.batch_limit import BatchLimit
from tasks.ray_job import head_notes
from tasks.ray_job.killed_replica import MOST_HALVINGS, spare_memory
from tests.ray_job.test_own_machine import job_of, spec

JOB = job_of(spec())


@pytest.fixture
def replica_starts(monkeypatch: pytest.MonkeyPatch) -> "ReplicaStarts":
    """Begins processes of replicas, of which Ray kills each for memory."""
    starts = ReplicaStarts()
    monkeypatch.setattr("ray.get_runtime_context", lambda: starts.context)
    monkeypatch.setattr(
        "tasks.ray_job.head_notes._internal_kv_get", lambda key, namespace: starts.told.get(key)
    )
    monkeypatch.setattr(
        "tasks.ray_job.head_notes._internal_kv_put",
        lambda key, value, overwrite, namespace: starts.told.update({key: value}),
    )
    monkeypatch.setattr(
        "tasks.ray_job.killed_replica.has_run_out_of_memory", starts.killed.__contains__
    )
    return starts


class ReplicaStarts:
    """Calls what a replica does first, as of an actor and a process."""

    def __init__(self) -> None:
        self.told: dict[bytes, bytes] = {}
        self.killed: set[str] = set()
        self.processes = 0

    def __call__(self, actor: str, halvings: int, *, after_a_kill: bool = True) -> int:
        """Begin a process where so many halvings are remembered; how many there are then."""
        former = head_notes.noted(head_notes.key_of(JOB, "replicas", actor))
        if former is not None and after_a_kill:
            self.killed.add(former["process"])
        self.processes += 1
        self.context = SimpleNamespace(
            get_actor_id=lambda: actor, get_worker_id=lambda: f"process{self.processes}"
        )
        limit = BatchLimit(halvings)
        spare_memory(JOB, limit)
        return limit.halvings


def test_a_kill_halves_and_any_other_end_does_not(replica_starts: ReplicaStarts) -> None:
    assert replica_starts("a", 0) == 0
    assert replica_starts("a", 0) == 1
    assert replica_starts("a", 1) == 2, "one of the process that already had less"
    assert replica_starts("a", 2, after_a_kill=False) == 2


def test_replicas_killed_together_halve_once(replica_starts: ReplicaStarts) -> None:
    for actor in "abc":
        replica_starts(actor, 0)
    assert replica_starts("a", 0) == 1
    assert [replica_starts(actor, 1) for actor in "bc"] == [1, 1]
    assert replica_starts("b", 1) == 2, "what was left was still too much"


def test_batches_do_not_shrink_without_end(replica_starts: ReplicaStarts) -> None:
    halvings = replica_starts("a", 0)
    for _ in range(MOST_HALVINGS + 3):
        halvings = replica_starts("a", halvings)
    assert halvings == MOST_HALVINGS
