"""Writes batches: data files, then a record."""

import math
import time
from dataclasses import asdict, replace
from functools import partial

import pyarrow as pa

from tasks.errors import BatchInferenceError, InvalidSpec, SchemaMismatch
from tasks.kinds.sinks.parquet import ParquetSink
from tasks.protocol.batch import RESERVED, RowBatch, merge
from tasks.protocol.ids import as_ids
from tasks.protocol.records import Encoded, Part, Record, store
from tasks.ray_job.casting import cast
from tasks.ray_job.counts import CoreClock, Report, Reporter
from tasks.ray_job.job import Job
from tasks.ray_job.output_schema import digest, read_pinned, schema_for
from tasks.ray_job.parents import num_parents
from tasks.ray_job.profiling import profiled
from tasks.ray_job.sink_encoding import parts_of
from tasks.ray_job.stage_error import stage_error

UNRECORDED_PER_REPLICA = 3
"""Batches on their way through the model and the write stage: what a crash can cost."""
UNRECORDED_SECONDS = 5.0
"""The same in seconds of a replica: of a quick model's batches these are more than three."""
QUARANTINE = ParquetSink(path="quarantine")
"""Encodes and decodes files of rows set aside; its path is not used."""
SET_ASIDE = ".set_aside.parquet"
"""Ends the names of staged files of rows set aside, among those of rows that are not: who has a run
held back finds them all by it."""
QUARANTINE_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("row", pa.int64()),
        ("stage", pa.string()),
        ("error_type", pa.string()),
        ("error_message", pa.string()),
        ("input_json", pa.string()),
        ("run_id", pa.string()),
        ("history", pa.string()),
    ]
)
"""`input_json` is JSON, cut off where it is long; `history` is JSON of what was said before, oldest
first, or null."""


def batches_per_write(job: Job) -> int:
    """Batches that one write takes, where the sink wants bigger files."""
    wanted = job.spec.sink.rows_per_file
    return math.ceil(wanted / job.spec.rows_per_batch) if wanted else 1


def most_unrecorded(batch_seconds: float, per_write: int = 1) -> int:
    """Batches of each replica that may be without a record at once.

    Args:
        batch_seconds: that a replica takes for one.
        per_write: batches that one record is of.
    """
    of_quick_ones = int(UNRECORDED_SECONDS / batch_seconds) if batch_seconds else 0
    return max(UNRECORDED_PER_REPLICA * per_write, of_quick_ones)


def write_reported(job: Job, batches: list[RowBatch], report: Reporter) -> Record:
    """Write and report."""
    begun, clock = time.monotonic(), CoreClock()
    with profiled(job, "write"):
        record = write_batches(job, batches)
    rows = sum(len(batch.rows) for batch in batches)
    parents = sum(num_parents(batch.rows) for batch in batches)
    seconds = time.monotonic() - begun
    report(Report("write", rows, 0, 0, seconds, parents=parents, **clock.lap()))
    return record


def write_batches(job: Job, batches: list[RowBatch]) -> Record:
    """Store batches as one record.

    Raises:
        SchemaMismatch: the rows do not fit the run's output schema, each other, or the sink.
        InvalidSpec: a gate looks at a column that the rows do not have.
        StageFailed: storage failed; names the first row of the batch.
    """
    batch = batches[0]
    try:
        batch = merge(in_pinned_schema(job, batches))
        return store(job.storage, job.run, job.plan, batch, partial(encode, job), job.attempt)
    except InvalidSpec:
        raise  # no row is to blame
    except BatchInferenceError as error:
        error.locate("write", *first_row(batch))
        raise
    except Exception as error:
        raise stage_error(error).locate("write", *first_row(batch)) from error


def in_pinned_schema(job: Job, batches: list[RowBatch]) -> list[RowBatch]:
    """Several batches as each would be written alone; as they are while no schema is pinned.

    But where they may have different columns: then the first of them pins one.

    Raises:
        SchemaMismatch: one does not fit; names its first row.
    """
    if len(batches) == 1 or "write" not in job.stages:
        return batches
    if read_pinned(job) is None and not job.spec.sink.takes_new_columns:
        return batches
    full = [published(each.rows) for each in batches if len(each.rows)]
    if not full:
        return batches
    first = last = None
    while first is None or first != last:  # each may know a type that those before did not
        first, *others = [schema_for(job, rows) for rows in full]
        last = others[-1] if others else first
    return [in_schema(job, each, first) for each in batches]


def in_schema(job: Job, batch: RowBatch, schema: pa.Schema) -> RowBatch:
    """A batch whose rows have the run's schema, beside what is ours.

    Raises:
        SchemaMismatch: they do not fit; names the first of them.
    """
    if not len(batch.rows):
        return batch  # it need not know the columns
    try:
        rows = cast(job, published(batch.rows), schema)
    except SchemaMismatch as error:
        error.locate("write", *first_row(batch))
        raise
    for name in batch.rows.column_names:
        if name.startswith(RESERVED):
            rows = rows.append_column(name, batch.rows[name])
    return replace(batch, rows=rows)


def first_row(batch: RowBatch) -> tuple[str | None, int | None]:
    """Where a batch's first row comes from."""
    return batch.where(int(batch.ids[0])) if len(batch.rows) else (None, None)


def encode(job: Job, batch: RowBatch) -> Encoded:
    """A batch as files of the sink, and the rows set aside as a quarantine file."""
    quarantine = rejected_part(job, batch) if batch.rejected else None
    if "write" not in job.stages:
        return Encoded([kept_part(batch)], quarantine, "")
    if not len(batch.rows):
        return Encoded([], quarantine, "")
    rows = published(batch.rows)
    schema = schema_for(job, rows)
    rows = cast(job, rows, schema)
    return Encoded(parts_of(job.spec.sink, rows, batch.ids), quarantine, digest(schema))


def published(rows: pa.Table) -> pa.Table:
    """Rows less the columns that are ours."""
    return rows.select([name for name in rows.column_names if not name.startswith(RESERVED)])


def kept_part(batch: RowBatch) -> Part:
    """A batch for the run's second job, just as it would travel: with all that it knows."""
    return Part(batch.to_bytes(compression="zstd").to_pybytes(), ".batch", batch.ids)


def rejected_part(job: Job, batch: RowBatch) -> Part:
    """The rows set aside, one line each."""
    lines = [{**asdict(each), "run_id": job.run_id} for each in batch.rejected]
    table = pa.Table.from_pylist(lines, QUARANTINE_SCHEMA)
    ids = as_ids(each.id for each in batch.rejected)
    return Part(QUARANTINE.encode(table), SET_ASIDE, ids)
