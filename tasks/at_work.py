"""Jobs at work on an output: who they are, and how to stop them."""

import logging
from dataclasses import dataclass

from tasks.clusters.choose import cluster_of
from tasks.clusters.running import RunningJob
from tasks.clusters.stopping import stop_job
from tasks.errors import BatchInferenceError
from tasks.ray_job.job import Job, output_of
from tasks.spec import BatchInferenceSpec
from tasks.unfinished import jobs_left

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Told:
    """Unfinished jobs of an output that have been told to stop."""

    stopped: list[Job]
    """They ran, and run no more."""
    unseen: list[Job]
    """Nobody has seen them run. One that does, as in another process, stops by itself. Those after
    which their run went on are not among these."""
    errors: list[BatchInferenceError]
    """Why some of these could not be looked for."""


def unfinished_jobs(spec: BatchInferenceSpec) -> list[Job]:
    """Jobs of a spec's output that have left no result, alive or not; of cut runs both."""
    storage, output = output_of(spec)
    return jobs_left(spec, [stat.path for stat in storage.list(output.runs)])


def live_jobs(spec: BatchInferenceSpec) -> list[tuple[Job, RunningJob]]:
    """Jobs at work on a spec's output, whoever started them.

    One whose cluster does not answer, or is no more, is passed over with a warning.
    """
    found = []
    for job in unfinished_jobs(spec):
        try:
            if running := cluster_of(job.spec.cluster).attach(job):
                found.append((job, running))
        except BatchInferenceError as error:
            logger.warning("whether job %s runs cannot be told: %s", job.id, error)
    return found


def tell_to_stop(spec: BatchInferenceSpec) -> Told:
    """Stop the jobs at work on a spec's output; what they recorded stays good.

    One whose cluster is still being made is stopped before it starts. One whose cluster does not
    answer, or is no more, keeps none of the others.
    """
    told = Told([], [], [])
    for job in unfinished_jobs(spec):
        was_seen = False
        try:
            was_seen = stop_job(job)
        except BatchInferenceError as error:
            told.errors.append(error)
        if was_seen:
            told.stopped.append(job)
        elif not has_successor(job):
            told.unseen.append(job)
    return told


def has_successor(job: Job) -> bool:
    """Whether its run went on with another attempt: that one is the run's own, should it live."""
    return job.storage.stat(f"{job.run.attempt(job.attempt + 1)}/job.json") is not None


def stop_jobs(spec: BatchInferenceSpec) -> list[Job]:
    """The same, for those who take trouble with any of the jobs as an error.

    Returns:
        Those that ran.

    Raises:
        BatchInferenceError: what the first one that could not be stopped raised, after the others.
    """
    told = tell_to_stop(spec)
    if told.errors:
        raise told.errors[0]
    return told.stopped
