"""How many rows travel together, where the user has no wish."""

import math
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tasks.kinds.sources.likely_rows import reckon_rows
from tasks.ray_job.job import Job
from tasks.ray_job.opening import covered_of, todo_lines

BATCHES_PER_REPLICA = 12
"""With fewer, some replicas would be idle while others have their last ones."""
BATCHES_PER_PREPARER = 4
"""Of the workers of preprocessing: a GPU has nothing to do until the first batch is prepared, and
with fewer batches than workers some of these have nothing to do either."""
BATCHES_IN_HAND = 2
"""Of each replica: one at work, and the next one."""
LEAST_MEDIA_ROWS = 64
"""Each takes long enough that so few are worth a way of their own."""
ROWS_OF_NUMBERS = 524_288
"""These are small: so many travel together, even where the model is content with fewer."""
SHARDS_COMPARED = 10_000
"""The rest is taken to be like them."""


def in_equal_shares(job: Job, rows: int | None, preparers: int = 0) -> Job:
    """The job in batches small enough to be shared out evenly among all replicas.

    As large as is usual where nobody knows how many rows there are; as they are where the user has
    named a number, or where another job has cut them.

    Args:
        job: what to do.
        rows: left to do, as far as that can be known.
        preparers: workers of preprocessing, where replicas do not prepare their own batches.
    """
    spec = job.spec
    is_whole = {"read", "infer"} <= {*job.stages}
    if spec.stages.read.rows_per_batch != "auto" or not is_whole:
        return job
    usual = usual_rows(job)
    if rows is None:
        return with_rows_per_batch(job, usual)
    replicas = spec.resources.most_replicas()
    batches = max(BATCHES_PER_REPLICA * replicas, BATCHES_PER_PREPARER * preparers)
    share = math.ceil(rows / batches)
    # One alone leaves no other idle, and texts sorted by length want to be many.
    fewest = spec.model.least_rows_per_batch * (2 if replicas == 1 else 1)
    fewest = LEAST_MEDIA_ROWS if spec.source.has_media else fewest
    fewest = evenly(rows, fewest, replicas)
    call = spec.batch_size or spec.model.rows_per_call or 1
    whole_calls = math.ceil(max(share, fewest) / call) * call
    return with_rows_per_batch(job, min(whole_calls, usual))


def evenly(rows: int, size: int, replicas: int) -> int:
    """Rows in a batch, or some more, so that each of several replicas gets as many batches."""
    batches = math.ceil(rows / size)
    left_over = batches % replicas
    return math.ceil(rows / (batches - left_over)) if 0 < left_over < batches else size


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
    if job.todo_rows is not None or "reader" not in job.pins or "readers" in job.pins:
        return job.todo_rows  # of a redrive, single rows of many shards are left
    try:
        lines = pa.concat_tables(todo_lines(job, 0, SHARDS_COMPARED))
        rows = rows_left(job, lines)
        return rows and round(rows * job.todo_bytes / pc.sum(lines["size"]).as_py())
    except Exception as error:
        print(f"cannot estimate the number of rows: {type(error).__name__}", flush=True)
        return None


def rows_left(job: Job, todo: pa.Table) -> int | None:
    """Rows left to do of some of the attempt's shards: counted ones, and such as are likely."""
    pins, unknown = job.pins["reader"], todo.filter(pc.is_null(todo["rows"]))
    source = job.spec.source.as_planned(pins)
    likely = reckon_rows(source, source.opened(source.paths[0])[0], unknown, pins)
    if likely is None:
        return None
    covered = sum(map(len, map(covered_of, todo["covered"].to_pylist())))
    return max(0, likely + (pc.sum(todo["rows"]).as_py() or 0) - covered)


def with_rows_per_batch(job: Job, rows: int) -> Job:
    """The job with so many rows in a batch."""
    read = job.spec.stages.read.model_copy(update={"rows_per_batch": rows})
    return replace(job, spec=job.spec.with_part("stages", read=read))
