"""Ends a job that has no room left in which it could go on, as after it has lost a node.

Ray starts the replicas of a lost node anew. They may take the last cores there are, and what they
are to predict may lie on the lost node: no core is left to read it again, and each waits for the
other. Or one finds no place, and the batches that were handed to it wait for it. Another attempt
begins with as many replicas as there is room for.
"""

from dataclasses import dataclass

from tasks.counted import counted
from tasks.errors import NoProgress
from tasks.ray_job.cluster_capacity import Node, crowding, requests_of
from tasks.ray_job.job import Job

STUCK_SECONDS = 60.0
"""So long no row has moved, at least."""
USUAL_BATCHES = 5
"""As long as so many of a replica's batches take on average: one may take longer than others."""


@dataclass(frozen=True)
class Replicas:
    """How the model's replicas are, and what is beside them."""

    begun: int = 0
    """That have had their model, and run or are started anew."""
    unplaced: int = 0
    """Of these, such as find no place."""
    is_fed: bool = False
    """Whether readers or preprocessing have work in hand, or some to do once more."""
    batch_seconds: float = 0.0
    """Of a replica, on average; 0 where none is known."""


def refuse_without_room(
    job: Job, num_gpus: float, nodes: list[Node], now: Replicas, still_seconds: float
) -> None:
    """See that what is left to do has room where nothing moves.

    With no more replicas than another attempt would want, it would wait as this one does.

    Args:
        job: what to do.
        num_gpus: of one replica.
        nodes: that it may use.
        now: its replicas.
        still_seconds: for how long no row has moved.

    Raises:
        NoProgress: it has none.
    """
    if now.begun <= job.spec.resources.min_replicas or still_seconds < patience(job, now):
        return
    wanted = {"min_replicas": now.begun, "num_gpus": num_gpus}
    spec = job.spec.with_part("resources", **wanted)
    has_room = sum(map(requests_of(spec)[0].fit_on, nodes)) >= now.begun
    waits = now.is_fed or (now.unplaced and not has_room)
    if waits and (asked := crowding(spec, nodes, job.stages)):
        raise NoProgress(
            f"no row has moved for {still_seconds:.0f} s: {counted(now.begun, 'replica')} and a "
            f"worker beside them have no room, perhaps because a node was lost ({asked})"
        ).locate("infer")


def patience(job: Job, now: Replicas) -> float:
    """Seconds: a batch may take its time, and another node may be on its way."""
    node = getattr(job.spec.cluster, "wait_for_nodes_seconds", 0.0)
    longest = max(STUCK_SECONDS, node, USUAL_BATCHES * now.batch_seconds)
    return min(longest, max(STUCK_SECONDS, job.spec.timeouts.no_progress_seconds))
