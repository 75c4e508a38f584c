"""Stops a job wherever it was started."""

import logging

from tasks.clusters.choose import cluster_of, release
from tasks.ray_job.job import Job

logger = logging.getLogger(__name__)


def stop_job(job: Job) -> bool:
    """Stop one job; whether it ran.

    Raises:
        BatchInferenceError: its cluster does not answer; the job finds word that it is to stop.
    """
    # Whoever follows it must not take it for lost, and start another.
    job.storage.write(job.stopped_file, b"")
    try:
        running = cluster_of(job.spec.cluster).attach(job)
        if running:
            running.stop()
    finally:
        # To delete what was made for it, its head, which may be out of memory, need not answer.
        if problem := release(job.spec.cluster, job.name_of_run):
            logger.warning(problem)
    return running is not None
