"""Jobs at work on an output: who they are, and how to stop them."""

import logging

from tasks.clusters.choose import cluster_of, release
from tasks.clusters.running import RunningJob
from tasks.prepared import first_job_of
from tasks.ray_job.job import Job, load_job, output_of
from tasks.run import attempts_in
from tasks.spec import BatchInferenceSpec

logger = logging.getLogger(__name__)


def unfinished_jobs(spec: BatchInferenceSpec) -> list[Job]:
    """Jobs of a spec's output that have left no result, alive or not; of cut runs both."""
    storage, output = output_of(spec)
    jobs = []
    for path in [stat.path for stat in storage.list(output.runs)]:
        if path.endswith("/job.json"):
            jobs.append(load_job(storage.read(path)))
        elif path.endswith("/prepared.json"):
            elsewhere, run = first_job_of(spec, storage.read(path))
            jobs += [load_job(elsewhere.read(file)) for file in attempts_in(elsewhere, run)]
    return [job for job in jobs if job.storage.stat(job.result) is None]


def live_jobs(spec: BatchInferenceSpec) -> list[tuple[Job, RunningJob]]:
    """Jobs at work on a spec's output, whoever started them.

    Raises:
        Unreachable: their cluster does not answer.
    """
    found = [(job, cluster_of(job.spec.cluster).attach(job)) for job in unfinished_jobs(spec)]
    return [(job, running) for job, running in found if running]


def stop_jobs(spec: BatchInferenceSpec) -> list[Job]:
    """Stop the jobs at work on a spec's output; what they recorded stays good.

    One whose cluster is still being made is stopped before it starts.

    Returns:
        Those that ran.

    Raises:
        Unreachable: their cluster does not answer.
    """
    stopped = []
    for job in unfinished_jobs(spec):
        # Whoever follows it must not take it for lost, and start another.
        job.storage.write(job.stopped, b"")
        running = cluster_of(job.spec.cluster).attach(job)
        if running:
            running.stop()
            stopped.append(job)
        if problem := release(job.spec.cluster, job.run_id):
            logger.warning(problem)
    return stopped
