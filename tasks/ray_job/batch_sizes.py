"""How many rows travel together, where the user has no wish."""

import math
from dataclasses import replace
from heapq import nlargest

from tasks.kinds.sources.likely_rows import likely_rows, reckoned
from tasks.ray_job.job import Job
from tasks.ray_job.opening import Todo, load_todo

BATCHES_PER_REPLICA = 12
"""With fewer, some replicas would be idle while others have their last ones."""
MEDIA_ROWS = 64
"""Images, sounds and films take long enough."""
ROWS_OF_NUMBERS = 16_384
"""That travel together at most, as of other rows as many as the model says: they are small."""
SHARDS_COMPARED = 1_000
SHARDS_SEEN = 3
"""The largest of those: small ones may have no rows at all."""


def in_equal_shares(job: Job, rows: int | None) -> Job:
    """The job in batches small enough to be shared out evenly among all replicas.

    As large as is usual where nobody knows how many rows there are, and as they are where the user
    has named a number.

    Args:
        job: what to do.
        rows: left to do, as far as that can be known.
    """
    spec = job.spec
    if spec.stages.read.rows_per_batch != "auto" or "infer" not in job.stages:
        return job
    usual = usual_rows(job)
    if rows is None:
        return with_rows_per_batch(job, usual)
    share = math.ceil(rows / (BATCHES_PER_REPLICA * spec.resources.most_replicas()))
    fewest = MEDIA_ROWS if spec.source.has_media else spec.model.least_rows_per_batch
    call = spec.batch_size or spec.model.rows_per_call or 1
    whole_calls = math.ceil(max(share, fewest) / call) * call
    return with_rows_per_batch(job, min(whole_calls, usual))


def usual_rows(job: Job) -> int:
    """Rows in a batch where there are many: those of numbers alone are small."""
    spec = job.spec
    if not spec.source.has_numbers_only(job.pins.get("reader", {})):
        return spec.rows_per_batch
    return max(
        spec.rows_per_batch, min(ROWS_OF_NUMBERS, spec.sink.rows_per_file or ROWS_OF_NUMBERS)
    )


def likely_rows_left(job: Job) -> int | None:
    """Rows left to do: as counted, else reckoned from a look at some shards.

    None where these do not tell, or cannot be read: reading them again says what is wrong.
    """
    if job.todo_rows is not None:
        return job.todo_rows
    try:
        todo = load_todo(job, 0, SHARDS_COMPARED)
        seen = nlargest(SHARDS_SEEN, todo, key=lambda each: each.shard.size)
        return reckoned([(rows_left(job, each), each.shard.size) for each in seen], job.todo_bytes)
    except Exception as error:
        print(f"rows are not reckoned beforehand: {type(error).__name__}", flush=True)
        return None


def rows_left(job: Job, todo: Todo) -> int | None:
    """Rows left to do of a shard, as far as its beginning tells."""
    source = job.spec.source.as_planned(todo.reader)
    storage = source.opened(source.paths[0])[0]
    rows = likely_rows(source, storage, todo.shard, todo.reader)
    if rows is None:
        return None
    return len(todo.wanted) if todo.wanted is not None else max(0, rows - len(todo.covered))


def with_rows_per_batch(job: Job, rows: int) -> Job:
    """The job with so many rows in a batch."""
    read = job.spec.stages.read.model_copy(update={"rows_per_batch": rows})
    stages = job.spec.stages.model_copy(update={"read": read})
    return replace(job, spec=job.spec.model_copy(update={"stages": stages}))
