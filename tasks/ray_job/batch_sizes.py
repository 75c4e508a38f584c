"""How many rows travel together, where the user has no wish."""

import math
from dataclasses import replace

from tasks.ray_job.job import Job

BATCHES_PER_REPLICA = 12
"""With fewer, some replicas would be idle while others have their last ones."""
MEDIA_ROWS = 64
"""Images, sounds and films take long enough."""


def in_equal_shares(job: Job) -> Job:
    """The job in batches small enough to be shared out evenly among all replicas.

    As they are where the user has named a number, or nobody knows how many rows there are.
    """
    rows, spec = job.todo_rows, job.spec
    if rows is None or spec.stages.read.rows_per_batch != "auto" or "infer" not in job.stages:
        return job
    share = math.ceil(rows / (BATCHES_PER_REPLICA * spec.resources.most_replicas()))
    fewest = MEDIA_ROWS if spec.source.has_media else spec.model.least_rows_per_batch
    call = spec.batch_size or spec.model.rows_per_call or 1
    whole_calls = math.ceil(max(share, fewest) / call) * call
    return with_rows_per_batch(job, min(whole_calls, spec.rows_per_batch))


def with_rows_per_batch(job: Job, rows: int) -> Job:
    """The job with so many rows in a batch."""
    read = job.spec.stages.read.model_copy(update={"rows_per_batch": rows})
    stages = job.spec.stages.model_copy(update={"read": read})
    return replace(job, spec=job.spec.model_copy(update={"stages": stages}))
