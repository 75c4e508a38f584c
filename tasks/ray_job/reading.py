"""Reads a share of the shards: rows with ids, in batches, with an end for each shard."""

import io
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.errors import BatchInferenceError, InputChanged, StageFailed
from tasks.kinds.sources import Source
from tasks.kinds.sources.source import BYTES_PER_READ, BadRow, Read
from tasks.protocol.batch import ROW, Rejection, RowBatch, ShardEnd
from tasks.protocol.ids import IdRuns, Ids, row_id
from tasks.protocol.plan_file import Shard
from tasks.protocol.storage import FsspecStorage, open_storage
from tasks.ray_job.counts import Report, Reporter
from tasks.ray_job.job import Job
from tasks.ray_job.stage_adapter import describe

SMALL_FILE_READERS = 16


@dataclass
class Pending:
    """Rows read and not yet sent on."""

    tables: list[pa.Table] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    ends: list[ShardEnd] = field(default_factory=list)
    sources: dict[int, str] = field(default_factory=dict)
    first_rows: dict[int, int] = field(default_factory=dict)
    rows: int = 0
    size: int = 0

    def take(self, seconds: float) -> RowBatch:
        """All of it as a batch."""
        empty = pa.table({ROW: pa.array([], pa.int64())})
        rows = pa.concat_tables(self.tables, promote_options="default") if self.tables else empty
        return RowBatch(
            rows=rows,
            rejected=tuple(self.rejected),
            ends=tuple(self.ends),
            sources=self.sources,
            first_rows=self.first_rows,
            seconds={"read": seconds},
        )


def read_reported(job: Job, start: int, stop: int, report: Reporter) -> Iterator[RowBatch]:
    """Read a share, reporting rows and finished bytes."""

    def shard_ended(shard: Shard) -> None:
        report(Report("read", 0, 0, 0, 0.0, size=shard.size))

    for batch in read_share(job, start, stop, shard_ended):
        report(read_report(batch))
        yield batch
    report(Report("read", 0, 0, 0, 0.0, tasks=1))


def read_report(batch: RowBatch) -> Report:
    """What reading a batch comes to."""
    rejected = len(batch.rejected)
    return Report("read", len(batch.rows) + rejected, rejected, 0, batch.seconds["read"])


def read_share(
    job: Job, start: int, stop: int, shard_ended: Callable[[Shard], None] = lambda shard: None
) -> Iterator[RowBatch]:
    """Read the shards from `start` to `stop` of the attempt's todo.

    Args:
        job: the attempt.
        start: first shard of the todo to read.
        stop: where to stop.
        shard_ended: told of each shard of unknown length when it is read.

    Raises:
        InputChanged: a shard's input is not what the plan says.
        StageFailed: storage failed; names the file and the row.
    """
    source = job.spec.source
    storage, _ = open_storage(source.paths[0], source.storage_options)
    pending = Pending()
    begun = time.monotonic()
    for shard, covered, reads in opened(job, source, storage, start, stop):
        pending.sources[shard.number] = shard.path
        if shard.first_row:
            pending.first_rows[shard.number] = shard.first_row
        row = 0
        for read in reads:
            row = add(pending, shard, read, row, covered)
            limit = job.spec.stages.read.rows_per_batch
            while pending.rows >= limit or pending.size >= BYTES_PER_READ:
                ready, pending = cut(pending, limit)
                yield ready.take(time.monotonic() - begun)
                begun = time.monotonic()
        if shard.rows is None:
            pending.ends.append(ShardEnd(shard.number, row))
            shard_ended(shard)
    if pending.tables or pending.rejected or pending.ends:
        yield pending.take(time.monotonic() - begun)


def opened(
    job: Job, source: Source, storage: FsspecStorage, start: int, stop: int
) -> Iterator[tuple[Shard, Ids, Iterator[Read]]]:
    """Each shard with the rows to leave out and its rows; small files many at a time."""
    todo = load_todo(job, start, stop)
    if not source.one_row_per_file:
        for shard, covered in todo:
            yield shard, covered, guarded(source, storage, shard, job)
        return

    def fetch(shard: Shard) -> list[Read]:
        return list(guarded(source, storage, shard, job))

    with ThreadPoolExecutor(SMALL_FILE_READERS) as pool:
        for at in range(0, len(todo), SMALL_FILE_READERS * 4):
            group = todo[at : at + SMALL_FILE_READERS * 4]
            fetched = pool.map(fetch, [shard for shard, _ in group])
            for (shard, covered), reads in zip(group, fetched, strict=True):
                yield shard, covered, iter(reads)


def load_todo(job: Job, start: int, stop: int) -> list[tuple[Shard, Ids]]:
    """A share of the todo: shards, and the ids to leave out of each."""
    file = pq.ParquetFile(io.BytesIO(job.storage.read(job.todo)))
    at = 0
    todo = []
    for group in range(file.num_row_groups):
        length = file.metadata.row_group(group).num_rows
        if at < stop and at + length > start:
            table = file.read_row_group(group).slice(max(0, start - at))
            table = table.slice(0, stop - max(start, at))
            for line in table.to_pylist():
                runs = IdRuns(tuple((run[0], run[1], run[2]) for run in line.pop("covered")))
                todo.append((Shard(**line), runs.ids()))
        at += length
    return todo


def up_to(rows: int | None, reads: Iterator[Read]) -> Iterator[Read]:
    """The first so many rows: a limited run plans only the beginning of a shard."""
    if rows is None:
        yield from reads
        return
    for read in reads:
        yield read if isinstance(read, BadRow) else read.slice(0, rows)
        rows -= 1 if isinstance(read, BadRow) else min(rows, len(read))
        if rows == 0:
            return


def guarded(source: Source, storage: FsspecStorage, shard: Shard, job: Job) -> Iterator[Read]:
    """A shard's rows; its input must be the one planned when it has been read."""
    row = 0
    try:
        for read in up_to(shard.rows, source.read(storage, shard, job.pins["reader"])):
            yield read
            row += 1 if isinstance(read, BadRow) else len(read)
    except FileNotFoundError as error:
        gone = InputChanged("the file was there when it was planned and is gone")
        raise gone.locate("read", shard.path) from error
    except BatchInferenceError as error:
        error.locate("read", shard.path, row + shard.first_row)
        raise
    except Exception as error:
        at = row + shard.first_row
        raise StageFailed(describe(error)).locate("read", shard.path, at) from error
    # One look afterwards is enough: had the input changed before or while it was read, this
    # would show it.
    stat = storage.stat(shard.path)
    if stat is None or stat.identity != shard.identity:
        changed = InputChanged("the file was rewritten after it was planned")
        raise changed.locate("read", shard.path)


def add(pending: Pending, shard: Shard, read: Read, row: int, covered: Ids) -> int:
    """Add rows, less those covered; return the shard's next row number."""
    count = 1 if isinstance(read, BadRow) else len(read)
    if row + count == 0:
        return 0
    row_id(shard.number, row + count - 1)  # asserts that ids fit
    ids = row_id(shard.number, row) + np.arange(count, dtype=np.int64)
    keep = ~np.isin(ids, covered) if len(covered) else np.ones(count, dtype=bool)
    if isinstance(read, BadRow):
        if keep[0]:
            pending.rejected.append(unreadable(shard, int(ids[0]), row, read))
        return row + 1
    table = read.add_column(0, ROW, pa.array(ids))
    if not keep.all():
        table = table.filter(pa.array(keep))
    if len(table):
        pending.tables.append(table)
        pending.rows += len(table)
        pending.size += table.nbytes
    return row + count


def cut(pending: Pending, limit: int) -> tuple[Pending, Pending]:
    """What fills a batch, and the rest."""
    if pending.rows <= limit:
        return pending, Pending(sources=dict(pending.sources), first_rows=dict(pending.first_rows))
    table = pa.concat_tables(pending.tables, promote_options="default")
    rest = table.slice(limit)
    pending.tables = [table.slice(0, limit)]
    left = Pending([rest], [], [], dict(pending.sources), dict(pending.first_rows))
    left.rows, left.size = len(rest), rest.nbytes
    return pending, left


def unreadable(shard: Shard, id_: int, row: int, bad: BadRow) -> Rejection:
    """A row that could not be read."""
    return Rejection(
        id=id_,
        source=shard.path,
        row=row + shard.first_row,
        stage="read",
        error_type=type(bad.error).__name__,
        error_message=str(bad.error)[:2_000],
        input_json=bad.raw,
    )
