"""Reads a share of the shards: rows with ids, in batches, with an end for each shard."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tasks.kinds.sources.source import BYTES_PER_READ, BadRow, Read
from tasks.kinds.sources.text import BadLine
from tasks.protocol.batch import ROW, Rejection, RowBatch, ShardEnd
from tasks.protocol.ids import row_id, row_of, shard_of
from tasks.protocol.plan_file import Shard
from tasks.ray_job.counts import CoreClock, Report, Reporter, report_of
from tasks.ray_job.job import Job
from tasks.ray_job.opening import OpenShard, Todo, open_shards
from tasks.ray_job.profiling import profiled_items
from tasks.ray_job.read_materialized import read_materialized
from tasks.ray_job.stage_error import message_of

REJECTED_AT_ONCE = 2_048
"""Rows set aside that wait for others: to say why may take a millisecond each, and the budget
for them counts what was handed on. A batch of numbers may have a million rows."""
NO_SUCH_ROW = "with the spec's current settings, the file ends before this row"
ENDS_AT_ONCE = 50_000
"""Of files that have hardly any row, or none: their paths take more memory than rows would."""
TELL_EVERY_SECONDS = 1.0
SMALL_ROW = 4_096
"""Bytes. Columns of many pieces take longer wherever rows are filtered or taken: those of small
rows are copied into one, which costs little."""


@dataclass
class Pending:
    """Rows read and not yet sent on."""

    tables: list[pa.Table] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    ends: list[ShardEnd] = field(default_factory=list)
    sources: dict[int, str] = field(default_factory=dict)
    first_rows: dict[int, int] = field(default_factory=dict)
    rows: int = 0
    """Of the tables."""
    size: int = 0
    """Bytes of these in memory."""

    def name(self, shard: Shard) -> None:
        """Remember where a shard's rows come from."""
        self.sources[shard.number] = shard.path
        if shard.first_row:
            self.first_rows[shard.number] = shard.first_row

    def is_full(self, limit: int) -> bool:
        """Whether there is enough for a batch."""
        has_many = len(self.rejected) >= min(limit, REJECTED_AT_ONCE)
        return has_many or self.rows >= limit or self.size >= BYTES_PER_READ

    @property
    def has_any(self) -> bool:
        """Whether there is anything to hand on."""
        return bool(self.tables or self.rejected or self.ends)

    @property
    def taken(self) -> int:
        """Rows that wait, those set aside among them."""
        return self.rows + len(self.rejected)

    def take(self, seconds: float) -> RowBatch:
        """All of it as a batch."""
        empty = pa.table({ROW: pa.array([], pa.int64())})
        rows = pa.concat_tables(self.tables, promote_options="default") if self.tables else empty
        if self.size < self.rows * SMALL_ROW:
            rows = rows.combine_chunks()
        return RowBatch(
            rows=rows,
            rejected=tuple(self.rejected),
            ends=tuple(self.ends),
            sources=self.sources,
            first_rows=self.first_rows,
            seconds={"read": seconds},
        )


@dataclass
class Unseen:
    """What a reader has done that no batch shows, told now and then.

    Of small files there may be millions, and as many calls would keep whoever counts from counting
    rows. To pass over what is done of a large file may take longer than a job may seem to stand
    still.
    """

    report: Reporter
    size: int = 0
    """Bytes of input that are finished."""
    passed_over: int = 0
    """Rows."""
    told: float = field(default_factory=time.monotonic)

    def add(self, *, size: int = 0, passed_over: int = 0) -> None:
        """More of it."""
        self.size += size
        self.passed_over += passed_over
        if time.monotonic() - self.told >= TELL_EVERY_SECONDS:
            self.tell()

    def tell(self) -> None:
        """Tell what was not told yet."""
        if self.size or self.passed_over:
            said = Report("read", 0, 0, 0, 0.0, size=self.size, passed_over=self.passed_over)
            self.report(said)
        self.size = self.passed_over = 0
        self.told = time.monotonic()


def read_reported(job: Job, start: int, stop: int, report: Reporter) -> Iterator[RowBatch]:
    """Read a share, reporting rows and finished bytes."""
    read = read_share if "read" in job.stages else read_materialized
    clock = CoreClock()
    for batch in profiled_items(job, "read", read(job, start, stop, report)):
        report(replace(report_of("read", batch), **clock.lap()))
        yield batch
        clock.lap()
    report(Report("read", 0, 0, 0, 0.0, tasks=1))


def read_share(job: Job, start: int, stop: int, report: Reporter) -> Iterator[RowBatch]:
    """Read the shards from `start` to `stop` of the attempt's todo.

    Raises:
        InputChanged: a shard's input is not what the plan says.
        StageFailed: storage failed; names the file and the row.
    """
    limit = job.spec.rows_per_batch
    pending, reader, unseen = Pending(), None, Unseen(report)
    begun = time.monotonic()
    for opened in open_shards(job, start, stop):
        shard = opened.shard
        if reader not in (None, opened.todo.reader) and pending.has_any:
            # Of a redrive: what two runs have read may be of other types.
            yield pending.take(time.monotonic() - begun)
            pending, begun = Pending(), time.monotonic()
        reader = opened.todo.reader
        pending.name(shard)
        row = looked_at = 0
        for read in opened.reads:
            at, waiting = row, pending.taken
            row = add(pending, opened.todo, read, row)
            unseen.add(passed_over=row - at - (pending.taken - waiting))
            while pending.is_full(limit):
                if is_look_due(opened, row, looked_at):
                    opened.check_unchanged()
                    looked_at = row
                ready, pending = split(pending, limit)
                pending.name(shard)
                yield ready.take(time.monotonic() - begun)
                begun = time.monotonic()
        row = set_rest_aside(pending, opened.todo, NO_SUCH_ROW, row)
        if not job.spec.source.one_row_per_file:  # those are looked at as they are fetched
            opened.check_unchanged()
        if shard.rows is None:
            pending.ends.append(ShardEnd(shard.number, row))
        if job.todo_rows is None:  # else nobody asks, and there may be millions of files
            unseen.add(size=shard.size)
        if len(pending.ends) >= ENDS_AT_ONCE:
            yield pending.take(time.monotonic() - begun)
            pending, begun = Pending(), time.monotonic()
    unseen.tell()
    if pending.has_any:
        yield pending.take(time.monotonic() - begun)


def is_look_due(opened: OpenShard, row: int, looked_at: int) -> bool:
    """Whether an input is to be looked at before rows of it are handed on.

    Where each look takes as long as there are rows, as at a day of a database's table, it is one
    whenever they have doubled, and for the last: all are of one statement, to which no change
    shows that came after it.

    Args:
        opened: the shard.
        row: how many rows were read.
        looked_at: how many had been at the last look.
    """
    if not opened.source.looks_at_all:
        return True
    return row > looked_at and (row >= 2 * looked_at or row == opened.shard.rows)


def add(pending: Pending, todo: Todo, read: Read, row: int) -> int:
    """Add those rows that are left to do; return the shard's next row number."""
    shard = todo.shard
    count = 1 if isinstance(read, BadRow) else len(read)
    if row + count == 0:
        return 0
    ids = np.arange(row_id(shard.number, row), row_id(shard.number, row + count - 1) + 1)
    if isinstance(read, BadRow):
        if read.is_rest and todo.wanted is not None:
            return set_rest_aside(pending, todo, str(read.error), row, read.raw)
        if todo.takes(ids)[0]:
            pending.rejected.append(unreadable(shard, int(ids[0]), row, read))
        return row + 1
    table = read.add_column(0, ROW, pa.array(ids))
    if not todo.takes_all:
        table = table.filter(pa.array(todo.takes(ids)))
    if len(table):
        pending.tables.append(table)
        pending.rows += len(table)
        pending.size += table.nbytes
    return row + count


def set_rest_aside(pending: Pending, todo: Todo, reason: str, row: int, raw: str = "") -> int:
    """Set each row aside that a redrive wants from here on; return the shard's next row number.

    As where an earlier version did not know yet that the file is damaged, or read more rows of it
    than the spec now has it read: without a record of each the redrive would have no end.
    """
    if todo.wanted is None:
        return row
    shard, bad = todo.shard, BadRow(BadLine(reason), raw)
    left = todo.wanted[todo.wanted >= row_id(shard.number, row)]
    for id_ in left[todo.takes(left)].tolist():
        pending.rejected.append(unreadable(shard, id_, int(row_of(id_)), bad))
    return max([row, *(row_of(left[-1:]) + 1).tolist()])


def split(pending: Pending, limit: int) -> tuple[Pending, Pending]:
    """What fills a batch of so many rows, with all else that waits, and the rows that are left."""
    if pending.rows <= limit:
        return pending, Pending()
    table = pa.concat_tables(pending.tables, promote_options="default")
    if pending.size < pending.rows * SMALL_ROW:
        table = table.combine_chunks()  # once: of many pieces each batch would look at all
    rest = table.slice(limit)
    pending.tables = [table.slice(0, limit)]
    left = Pending([rest], rows=len(rest), size=rest.nbytes)
    if len(pending.sources) == 1:
        left.sources, left.first_rows = {**pending.sources}, {**pending.first_rows}
        return pending, left
    # What is left was read last, so it belongs to the shard at hand; or to one before it, where
    # a batch is smaller than what a source yields.
    of_rows = shard_of(rest[ROW].to_numpy())
    shards = {int(of_rows[0]), *of_rows[1:][np.diff(of_rows) != 0].tolist()}
    left.sources = {n: path for n, path in pending.sources.items() if n in shards}
    left.first_rows = {n: row for n, row in pending.first_rows.items() if n in shards}
    return pending, left


def unreadable(shard: Shard, id_: int, row: int, bad: BadRow) -> Rejection:
    """A row that could not be read."""
    return Rejection(
        id=id_,
        source=shard.path,
        row=row + shard.first_row,
        stage="read",
        error_type=bad.error_type,
        error_message=message_of(bad.error),
        input_json=bad.raw,
    )
