"""Jobs at work on an output: who they are, and how to stop them."""

from tasks.clusters.choose import cluster_of, release
from tasks.clusters.running import RunningJob
from tasks.ray_job.job import Job, load_job, output_of
from tasks.spec import BatchInferenceSpec


def live_jobs(spec: BatchInferenceSpec) -> list[tuple[Job, RunningJob]]:
    """Jobs at work on a spec's output, whoever started them.

    Raises:
        Unreachable: their cluster does not answer.
    """
    storage, output = output_of(spec)
    found: list[tuple[Job, RunningJob]] = []
    for stat in storage.list(output.runs):
        if not stat.path.endswith("/job.json"):
            continue
        job = load_job(storage.read(stat.path))
        if storage.stat(job.result) is None and (
            running := cluster_of(job.spec.cluster).attach(job)
        ):
            found.append((job, running))
    return found


def stop_jobs(spec: BatchInferenceSpec) -> list[Job]:
    """Stop the jobs at work on a spec's output; what they recorded stays good."""
    jobs = live_jobs(spec)
    for job, running in jobs:
        # Whoever follows it must not take it for lost, and start another.
        job.storage.write(job.stopped, b"")
        running.stop()
        release(job.spec.cluster, job.run_id)
    return [job for job, _ in jobs]
