"""A job's turn on a cluster whose GPUs are shared out: the oldest job first, none beyond the limit.

The cluster's own list of jobs is the queue. What a job may hold is said in its metadata, so that
its place follows the job: it outlives whoever submitted it, and ends when the job ends.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tasks.ray_job.job import Job
from tasks.spec import BatchInferenceSpec

GPUS = "batch_inference_gpus"
"""Metadata of a job: GPUs that it may hold."""
LOOK_EVERY_SECONDS = 2.0
LIVE = ("PENDING", "RUNNING")
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
    """
    while job.max_gpus is not None:
        holders = ahead_of(job, claims())
        if holders is None:
            return
        names = ", ".join(each.id for each in holders)
        tell(f"its turn: max_gpus {job.max_gpus:g} of the cluster are held by {names}")
        time.sleep(LOOK_EVERY_SECONDS)


def ahead_of(job: Job, queue: list[Claim]) -> list[Claim] | None:
    """The jobs to wait for; None where it is the job's turn.

    A small job does not overtake a big one that waits: else that might wait for ever.
    """
    assert job.max_gpus is not None
    own = next(each for each in queue if each.id == job.id)
    before = [each for each in queue if each.place < own.place]
    return before if sum(each.gpus for each in before) + own.gpus > job.max_gpus else None


def claims() -> list[Claim]:
    """The claims of all jobs that wait or run on this cluster."""
    from ray.util.state import list_jobs

    found: list[Any] = list_jobs(limit=MANY_JOBS, detail=True)
    return [
        Claim(each.start_time, each.submission_id, float(each.metadata[GPUS]))
        for each in found
        if each.status in LIVE and GPUS in (each.metadata or {})
    ]


def claim_of(spec: BatchInferenceSpec, max_gpus: float, gpus_per_replica: float) -> float:
    """GPUs that a job may hold: those of all its replicas, as many as the limit allows."""
    return replicas_within(spec, max_gpus, gpus_per_replica) * gpus_per_replica


def replicas_within(spec: BatchInferenceSpec, max_gpus: float, gpus_per_replica: float) -> int:
    """Replicas at most."""
    asked = spec.resources.most_replicas()
    # In decimals ten tenths are a whole; in binary they are a little less.
    allowed = math.floor(max_gpus / gpus_per_replica + 1e-6) if gpus_per_replica else asked
    return min(asked, allowed)


def within_limit(job: Job, gpus_per_replica: float) -> Job:
    """The job with no more replicas than the cluster's limit allows."""
    if job.max_gpus is None:
        return job
    most = replicas_within(job.spec, job.max_gpus, gpus_per_replica)
    resources = job.spec.resources.model_copy(update={"max_replicas": most})
    return replace(job, spec=job.spec.model_copy(update={"resources": resources}))
