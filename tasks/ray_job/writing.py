"""Writes batches: data files, then a record. The output schema is pinned by who writes first."""

import math
import time
import uuid
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256

import pyarrow as pa

from tasks.errors import BatchInferenceError, InvalidSpec, SchemaMismatch
from tasks.kinds.gates.gate import check_columns
from tasks.kinds.sinks.parquet import ParquetSink
from tasks.protocol.batch import RESERVED, RowBatch, merge
from tasks.protocol.ids import as_ids
from tasks.protocol.layout import RunFolder
from tasks.protocol.records import Encoded, Part, Record, store
from tasks.protocol.storage import Storage
from tasks.ray_job.casting import cast
from tasks.ray_job.counts import CpuClock, Report, Reporter
from tasks.ray_job.forms import parts_of
from tasks.ray_job.job import Job
from tasks.ray_job.parents import num_parents
from tasks.ray_job.profiling import profiled
from tasks.ray_job.stage_error import stage_error

UNRECORDED_PER_REPLICA = 3
"""Batches on their way through the model and the write stage: what a crash can cost."""
UNRECORDED_SECONDS = 5.0
"""The same in seconds of a replica: of a quick model's batches these are more than three."""
QUARANTINE = ParquetSink(path="quarantine")
QUARANTINE_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("row", pa.int64()),
        ("stage", pa.string()),
        ("error_type", pa.string()),
        ("error_message", pa.string()),
        ("input_json", pa.string()),
        ("run_id", pa.string()),
        (
            "history",
            pa.string(),
        ),  # JSON: what was said before, oldest first; or null
    ]
)


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


def write_reported(job: Job, batches: list[RowBatch], report: Reporter) -> None:
    """Write and report."""
    begun, clock = time.monotonic(), CpuClock()
    with profiled(job, "write"):
        write_batches(job, batches)
    rows = sum(len(batch.rows) for batch in batches)
    parents = sum(num_parents(batch.rows) for batch in batches)
    seconds = time.monotonic() - begun
    report(Report("write", rows, 0, 0, seconds, parents=parents, cpu_seconds=clock.lap()))


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
        return store(job.storage, job.run, job.plan, batch, partial(encode, job))
    except InvalidSpec:
        raise  # no row is to blame
    except BatchInferenceError as error:
        error.locate("write", *first_row(batch))
        raise
    except Exception as error:
        raise stage_error(error).locate("write", *first_row(batch)) from error


def in_pinned_schema(job: Job, batches: list[RowBatch]) -> list[RowBatch]:
    """Several batches as each would be written alone; as they are while no schema is pinned.

    Raises:
        SchemaMismatch: one does not fit; names its first row.
    """
    if len(batches) == 1 or "write" not in job.stages:
        return batches
    schema = read_pinned(job)
    return batches if schema is None else [in_schema(job, each, schema) for each in batches]


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
    schema = pinned_schema(job, rows.schema)
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
    return Part(QUARANTINE.encode(table), ".parquet", ids)


def pinned_schema(job: Job, own: pa.Schema) -> pa.Schema:
    """The run's output schema; pins `own` where there is none yet.

    Two writers may pin at once. Then the first by name counts, and a record written under the
    other does not count.
    """
    known = read_pinned(job)
    if known is not None:
        return known
    schema = job.spec.sink.schema_for(own)
    check_columns(job.spec.gates, schema)  # before hours are spent on rows
    name = f"{time.time_ns():020d}-{uuid.uuid4().hex[:12]}.arrow"
    job.storage.write(f"{job.run.schemas}/{name}", schema.serialize().to_pybytes())
    first = read_pinned(job)
    assert first is not None
    return first


PINNED: dict[str, pa.Schema] = {}


def read_pinned(job: Job) -> pa.Schema | None:
    """The first schema pinned; remembered, since it never changes once it is read."""
    folder = job.run.schemas
    known = PINNED.get(folder) or pinned(job.storage, job.run)
    if known is not None:
        PINNED[folder] = known  # until another job of this process begins
    return known


def of_pinned_schema(storage: Storage, run: RunFolder, records: list[Record]) -> list[Record]:
    """Records less those written under another schema than the one pinned.

    The first record will not do as the measure: where it lost the race to pin, every later one
    would be skipped, and the run would never end.
    """
    schema = pinned(storage, run)
    own = digest(schema) if schema else ""
    return [record for record in records if not record.files or record.schema == own]


def pinned(storage: Storage, run: RunFolder) -> pa.Schema | None:
    """The schema that was pinned first; None where there is none yet."""
    found = storage.list(run.schemas)
    return read_schema(storage, found[0].path) if found else None


def read_schema(storage: Storage, path: str) -> pa.Schema:
    """A stored schema."""
    return pa.ipc.read_schema(pa.py_buffer(storage.read(path)))


def digest(schema: pa.Schema) -> str:
    """A schema in 16 characters, with its metadata, in which equal ones may differ."""
    return sha256(schema.serialize().to_pybytes()).hexdigest()[:16]
