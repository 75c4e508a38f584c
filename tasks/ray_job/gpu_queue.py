"""A job's turn on a cluster whose GPUs are shared out: the oldest job first, none beyond the limit.

The cluster's own list of jobs is the queue. What a job may hold is said in its metadata, so that
its place follows the job: it outlives whoever submitted it, and ends when the job ends.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tasks.counted import counted
from tasks.errors import InvalidSpec, Unreachable
from tasks.ray_job.job import Job, with_max_replicas
from tasks.spec import BatchInferenceSpec
from tasks.whole import whole

GPUS = "batch_inference_gpus"
"""Metadata of a job: GPUs that it may hold."""
LOOK_EVERY_SECONDS = 2.0
LIVE = ("PENDING", "RUNNING")
"""What Ray calls a job that waits or runs."""
MANY_JOBS = 10_000


@dataclass(frozen=True)
class Claim:
    """A job that waits or runs, and the GPUs that it may hold."""

    started: int
    """When it was submitted, in milliseconds of the cluster's clock."""
    id: str
    gpus: float

    @property
    def place(self) -> tuple[int, str]:
        """Its place in the queue; no two jobs have the same."""
        return self.started, self.id


def await_turn(job: Job, tell: Callable[[str], None]) -> None:
    """Wait until the jobs before this one leave room for it.

    Args:
        job: asks; it was submitted to a cluster.
        tell: called every now and then with what it waits for; what it raises ends the wait.

    Raises:
        Unreachable: the cluster's list of jobs has not answered for too long.
    """
    answered = time.monotonic()
    while job.max_gpus is not None:
        try:
            queue = claims()
        except Unreachable as error:  # whoever gave up now would stand last in the queue
            if time.monotonic() - answered > job.spec.timeouts.unreachable_seconds:
                raise
            reason = error.message
        else:
            answered = time.monotonic()
            if (holders := ahead_of(job, queue)) is None:
                return
            reason = why(job.max_gpus, holders)
        tell(f"its turn: {reason}")
        time.sleep(LOOK_EVERY_SECONDS)


def why(max_gpus: float, holders: list[Claim]) -> str:
    """Why it is not a job's turn, as far as the cluster's list tells."""
    if not holders:
        return "the cluster's list of jobs does not include it yet"
    names = ", ".join(each.id for each in holders)
    return f"max_gpus {max_gpus:g} of the cluster are held by {names}"


def ahead_of(job: Job, queue: list[Claim]) -> list[Claim] | None:
    """The jobs to wait for; None where it is the job's turn.

    Nobody can say while the list is without the job: it waits, for none by name. A small job does
    not overtake a big one that waits: else that might wait for ever. One that takes no GPU has
    nobody to wait for.
    """
    assert job.max_gpus is not None
    own = next((each for each in queue if each.id == job.id), None)
    if own is None:
        return []
    if own.gpus == 0:
        return None
    before = [each for each in queue if each.place < own.place]
    has_room = sum(each.gpus for each in before) + own.gpus <= job.max_gpus
    return None if has_room or not before else before


def claims() -> list[Claim]:
    """The claims of all jobs that wait or run on this cluster.

    Raises:
        Unreachable: its list of jobs does not answer.
    """
    from ray.util.state import list_jobs
    from ray.util.state.exception import RayStateApiException

    try:
        found: list[Any] = list_jobs(limit=MANY_JOBS, detail=True)
    except (RayStateApiException, OSError, RuntimeError) as error:
        said = f"the cluster's list of jobs does not answer ({type(error).__name__})"
        raise Unreachable(said) from error
    return [
        Claim(each.start_time, each.submission_id, float(each.metadata[GPUS]))
        for each in found
        if each.status in LIVE and GPUS in (each.metadata or {})
    ]


def claim_of(spec: BatchInferenceSpec, max_gpus: float, gpus_per_replica: float) -> float:
    """GPUs that a job may hold: those of all its replicas, as many as the limit allows.

    Raises:
        InvalidSpec: it allows fewer than the job is to start with.
    """
    return replicas_within(spec, max_gpus, gpus_per_replica) * gpus_per_replica


def replicas_within(spec: BatchInferenceSpec, max_gpus: float, gpus_per_replica: float) -> int:
    """Replicas at most.

    Raises:
        InvalidSpec: they are fewer than the job is to start with.
    """
    refuse_beyond(spec, max_gpus, gpus_per_replica)
    asked = spec.resources.most_replicas()
    return min(asked, whole(max_gpus / gpus_per_replica)) if gpus_per_replica else asked


def refuse_beyond(spec: BatchInferenceSpec, max_gpus: float, gpus_per_replica: float) -> None:
    """Refuse a job that could never keep within the limit.

    Raises:
        InvalidSpec: its replicas need more GPUs at once than jobs of the cluster may hold.
    """
    wanted = spec.resources.min_replicas
    if gpus_per_replica and whole(max_gpus / gpus_per_replica) < wanted:
        raise InvalidSpec.at(
            "resources.min_replicas",
            wanted,
            f"is requested, each replica with {counted(gpus_per_replica, 'GPU')}, but jobs of the "
            f"cluster may hold {max_gpus:g} together: ask for fewer, or for less of a GPU in "
            "resources.num_gpus, or raise the cluster's max_gpus",
        )


def within_limit(job: Job, gpus_per_replica: float) -> Job:
    """The job with no more replicas than the cluster's limit allows.

    Raises:
        InvalidSpec: it allows fewer than the job is to start with.
    """
    if job.max_gpus is None:
        return job
    return with_max_replicas(job, replicas_within(job.spec, job.max_gpus, gpus_per_replica))
