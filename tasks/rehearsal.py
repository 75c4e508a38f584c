"""A job that only looks whether every node of a cluster could do the work, and ends there."""

import time
import uuid

from tasks.attempt import Attempt
from tasks.clusters.choose import cluster_of
from tasks.errors import NoProgress
from tasks.plan import PlannedRun
from tasks.ray_job.job import Job
from tasks.ray_job.result import failure

REHEARSAL_SECONDS = 180.0


def rehearse(planned: PlannedRun) -> str:
    """Send the job and wait for what it says; nothing of it is left behind.

    Raises:
        InvalidSpec: a node lacks something; names it.
        Unreachable: the cluster, or a storage from there, does not answer.
        NoProgress: the job did not end in time.
    """
    job = Job(
        spec=planned.spec,
        run_id=f"check-{uuid.uuid4().hex[:10]}",
        attempt=1,
        plan=planned.plan.digest,
        pins=planned.plan.pins,
        num_shards=0,
        todo_bytes=0,
        todo_rows=0,
        todo_name="",
        only_check=True,
    )
    job.save()
    attempt = Attempt(job, cluster_of(planned.spec.cluster), tell=lambda _: None)
    attempt.unreachable_seconds = 0.0  # nothing is lost yet: who does not answer is reported
    until = time.monotonic() + REHEARSAL_SECONDS
    try:
        attempt.ensure_started()
        while (result := attempt.look().result) is None:
            if time.monotonic() > until:
                raise NoProgress(f"the check did not end within {REHEARSAL_SECONDS:.0f} s")
            time.sleep(attempt.poll_seconds)
        error = failure(result)
        if error is not None:
            raise error
    finally:
        attempt.stop()
        job.storage.filesystem.rm(job.run.path, recursive=True)
    return "every node imports the code and reaches source, output and model"
