"""Carries row ids, outcomes and timings around user code."""

import json
import math
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import BatchInferenceError, OutOfMemory, UserCodeBroke
from tasks.kinds import column_types, columns
from tasks.kinds.models.batch_limit import BatchLimit
from tasks.kinds.models.runtimes.runtime_used import RuntimeLog
from tasks.kinds.no_number import finite
from tasks.kinds.tensors import is_tensor
from tasks.protocol.batch import ROW, Rejection, RowBatch
from tasks.protocol.ids import IdRuns, are_in, as_ids, distinct
from tasks.python_rows import python_rows
from tasks.ray_job.adaptive_batching import EMIT_EVERY_SECONDS, Pace
from tasks.ray_job.blame import Function, call_with_blame, concatenated, odd_one
from tasks.ray_job.out_of_memory import give_back_memory
from tasks.ray_job.parents import cut, num_parents, parent_starts
from tasks.ray_job.stage_error import reason_of, stage_error

INPUT_JSON_BYTES = 64 << 10
LARGE_BYTES = 1 << 20
"""Of a list or the like: of more numbers than that nobody reads even the beginning."""
BYTES_PER_PART = 256 << 20
"""That are handed on together, about."""


@dataclass(frozen=True)
class StageAdapter:
    """A stage as a function from one batch to one or more."""

    stage: str
    functions: tuple[Function, ...]
    pace: Pace = field(default_factory=Pace)
    """Rows that the functions get at a time."""
    cuts_itself: bool = True
    """Whether the last function takes of these as many at once as there is memory for."""
    limit: BatchLimit = field(default_factory=BatchLimit)
    """How much smaller batches are to be for want of memory."""
    runtimes: RuntimeLog = field(default_factory=RuntimeLog)
    """Knows what part of the time goes into warming up, which counts as nobody's."""

    def __call__(self, batch: RowBatch) -> Iterator[RowBatch]:
        """Run a batch through the functions.

        A slow model's batch comes out in parts, about one each 30 seconds, so that an attempt that
        ends costs little more of it. So does one of which much comes, as of numbers that become
        pictures.

        Raises:
            BatchInferenceError: the job cannot go on; names stage, source and row.
        """
        pending, left_out = replace(batch, rows=batch.rows.slice(0, 0)), [batch.filtered]
        done, rejected = list[pa.Table](), [*batch.rejected]
        begun = emitted = time.monotonic()
        warm, size = self.runtimes.warm_up_seconds, 0
        for outcome in self.outcomes(batch):
            if len(outcome.rows):
                done.append(outcome.rows)
                size += outcome.rows.nbytes
            rejected += outcome.rejected
            left_out.append(outcome.filtered)
            now = time.monotonic()
            after_next = now - emitted + self.pace.next_seconds
            if after_next > EMIT_EVERY_SECONDS or size > BYTES_PER_PART:
                pending = with_gone(pending, rejected, left_out)
                yield self.finish(pending, done, now - emitted - self.warmed_up_since(warm))
                warm = self.runtimes.warm_up_seconds
                pending = RowBatch(
                    rows=pending.rows, sources=batch.sources, first_rows=batch.first_rows
                )
                emitted = time.monotonic()
                done, rejected, left_out, size = [], [], [], 0
        pending = with_gone(pending, rejected, left_out)
        if emitted == begun or done or pending.rejected or pending.filtered:
            emitted += self.warmed_up_since(warm)
            yield self.finish(pending, done, time.monotonic() - emitted)

    def warmed_up_since(self, seconds: float) -> float:
        """Seconds of warming up, beyond those of a moment before."""
        return self.runtimes.warm_up_seconds - seconds

    def finish(self, batch: RowBatch, done: list[pa.Table], seconds: float) -> RowBatch:
        """A batch of what is done, with the time it took, which no change of the clock moves.

        Raises:
            UserCodeBroke: a column came back with types that do not go together.
        """
        try:
            rows = concatenated(done) if done else batch.rows
        except UserCodeBroke as error:
            odd, _ = odd_one(done)
            error.locate(self.stage, *batch.where(int(done[odd][ROW][0].as_py())))
            raise
        spent, ended = {**batch.seconds, self.stage: seconds}, time.time()
        at = (ended - seconds, ended) if self.stage == "infer" and done else batch.inferred_at
        return replace(batch, rows=rows, seconds=spent, inferred_at=at)

    def outcomes(self, batch: RowBatch) -> Iterator[RowBatch]:
        """What became of the rows, call by call."""
        starts, at = parent_starts(batch.rows), 0
        while left := len(starts) - 1 - at:
            after = at + min(left, self.share_of(left))
            rows = batch.rows.slice(int(starts[at]), int(starts[after] - starts[at]))
            yield from self.fitting(rows, batch)
            at = after

    def share_of(self, rows: int) -> int:
        """How many of the rows left the next call gets; as many as others, where it may be any."""
        if not self.cuts_itself:
            return self.pace.rows
        return math.ceil(rows / math.ceil(rows / self.pace.rows))

    def fitting(self, rows: pa.Table, batch: RowBatch) -> Iterator[RowBatch]:
        """What became of rows, in parts for which there is memory.

        Raises:
            OutOfMemory: there is none for a single row.
        """
        left, size, before = rows, len(rows), self.limit.halvings
        whole = num_parents(rows)
        while len(left):
            fixed = None if self.cuts_itself else self.limit.rows(self.pace.rows)
            part, rest = cut(left, fixed or size)
            begun, warm = time.monotonic(), self.runtimes.warm_up_seconds
            try:
                outcome = self.run_if_it_fits(part, batch)
            except OutOfMemory:
                self.limit.take_back(before)  # it was this row's fault, and not that of many
                raise
            if outcome is None:
                size = max(1, num_parents(part) // 2)
                continue
            seconds = time.monotonic() - begun - self.warmed_up_since(warm)
            num_columns = max(part.num_columns, outcome.rows.num_columns)
            self.pace.follow(num_parents(part), seconds, outcome.rows.nbytes, num_columns)
            if num_parents(part) >= (fixed or whole):
                self.limit.follow()  # fewer tell nothing of how many there is room for
            yield outcome
            left = rest

    def run_if_it_fits(self, rows: pa.Table, batch: RowBatch) -> RowBatch | None:
        """Run rows; None where memory ran out, and batches are to be smaller from here on."""
        try:
            return self.run(rows, batch)
        except OutOfMemory:
            wanted = len(rows) if self.cuts_itself else self.pace.rows
            if num_parents(rows) == 1 and self.limit.of(wanted) == 1:
                raise
        give_back_memory()
        if self.cuts_itself or not self.pace.shrink():
            # What cuts itself counts rows, children among them.
            self.limit.halve(len(rows) if self.cuts_itself else num_parents(rows))
        return None

    def run(self, rows: pa.Table, batch: RowBatch) -> RowBatch:
        """Run rows through all functions."""
        rejected: list[Rejection] = []
        given = rows[ROW].to_numpy()
        for function in self.functions:
            if not len(rows):
                break
            try:
                outcome = call_with_blame(function, rows)
            except BatchInferenceError as error:
                error.locate(self.stage, *batch.where(int(rows[ROW][0].as_py())))
                raise
            except (Exception, SystemExit) as error:
                if hasattr(error, "ray_terminate_msg"):
                    raise  # Ray ends the process, as on a node that is taken away
                where = batch.where(int(rows[ROW][0].as_py()))
                raise stage_error(error).locate(self.stage, *where) from error
            failed = firsts(rows, outcome.failed)
            rejected += [
                rejection(self.stage, row, batch, outcome.failed[row_id])
                for row_id, row in failed.items()
            ]
            rows = rows.slice(0, 0) if outcome.rows is None else outcome.rows
        settled = rows[ROW].to_numpy()
        if not rejected and np.array_equal(given, settled):
            return RowBatch(rows=rows)  # as nearly always
        settled = distinct(np.append(settled, as_ids(each.id for each in rejected)))
        given = distinct(given)
        filtered = IdRuns.of(given[~are_in(settled, given)])
        return RowBatch(rows=rows, rejected=tuple(rejected), filtered=filtered)


def with_gone(
    batch: RowBatch, rejected: Iterable[Rejection], filtered: Sequence[IdRuns]
) -> RowBatch:
    """A batch with the rows that go no further, of all its parts."""
    return replace(batch, rejected=tuple(rejected), filtered=IdRuns.joined(filtered))


def firsts(rows: pa.Table, wanted: Collection[int]) -> dict[int, pa.Table]:
    """Of each id, the first row; all looked for at once, of which there may be thousands."""
    if not wanted:
        return {}
    ids = rows[ROW].to_numpy()
    places = np.flatnonzero(are_in(distinct(as_ids(wanted)), ids))
    found, first = np.unique(ids[places], return_index=True)
    each = zip(found.tolist(), places[first].tolist(), strict=True)
    return {row_id: rows.slice(at, 1) for row_id, at in each}


def rejection(stage: str, row: pa.Table, batch: RowBatch, error: Exception) -> Rejection:
    """A row set aside, with what it was and why."""
    row_id = int(row[ROW][0].as_py())
    source, number = batch.where(row_id)
    return Rejection(
        id=row_id,
        source=source,
        row=number,
        stage=stage,
        error_type=type(error).__name__,
        error_message=reason_of(error),
        input_json=as_json(row),
    )


def as_json(row: pa.Table) -> str:
    """A row's input for the person who looks into it; media by size, the whole capped.

    What is shown by its size is not made into Python's objects first: an hour of sound would be
    gigabytes of them.
    """
    visible = row.select(columns.visible(row))
    arrays = [each for each in visible.schema if is_array(each)]
    present = [each.name for each in arrays if not visible[each.name].null_count]
    sizes = {name: visible[name].nbytes for name in present}
    media = {each.name for each in arrays if column_types.is_media(each)}
    large = {n: f"<{size} bytes>" for n, size in sizes.items() if n in media or size > LARGE_BYTES}
    (known,) = python_rows(visible.drop_columns([*large])) or [{}]  # none without a column
    shown = {name: large.get(name, known.get(name)) for name in visible.column_names}
    return json.dumps(finite(shown, json.dumps), default=readable)[:INPUT_JSON_BYTES]


def is_array(each: pa.Field) -> bool:
    """Whether a column holds lists and the like; of a tensor the bytes are told by their size."""
    holds_them = pa.types.is_nested(each.type) or isinstance(each.type, pa.FixedShapeTensorType)
    return holds_them and not is_tensor(each.type)


def readable(value: Any) -> str:
    """What JSON has no type for."""
    return f"<{len(value)} bytes>" if isinstance(value, bytes) else str(value)
