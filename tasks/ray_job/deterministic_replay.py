"""A task that Ray does again yields its batches in the same parts as before.

Ray takes a task to yield the same each time: of one that is done again, since its process died or
its node is lost, it leaves out as many items as it has got. Parts of a slow batch end where half a
minute does, so where they end is noted before they are handed on; not of a batch that was soon done
in one part, and would be again. Those of which each row is recorded as done by then are not done
again.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import ray

from tasks.protocol.batch import RowBatch, merge
from tasks.protocol.ids import IdRuns, are_in, as_ids, distinct
from tasks.protocol.ranges import IdRanges
from tasks.protocol.records import Record, load_records
from tasks.ray_job.adaptive_batching import EMIT_EVERY_SECONDS
from tasks.ray_job.blame import concatenated
from tasks.ray_job.counts import Stage
from tasks.ray_job.head_notes import key_of, note, noted
from tasks.ray_job.job import Job
from tasks.ray_job.parents import cut, num_parents

SOON_SECONDS = EMIT_EVERY_SECONDS / 4
MOST_RECORDS = 10_000
"""To read more takes longer than a batch of such a run."""


@dataclass
class Notes:
    """How many rows each part of a task's batch had, so far."""

    key: bytes
    rows: list[int]

    @classmethod
    def of_task(cls, job: Job, batch: RowBatch) -> "Notes":
        """Those of the task that this process is at, where it is done again; else none yet."""
        worker = ray._private.worker.global_worker.core_worker
        first = int(batch.ids[0]) if len(batch.rows) else 0
        key = key_of(job, "parts", ray.get_runtime_context().get_task_id(), first)
        is_again = worker.get_current_task_attempt_number() > 0
        return cls(key, (noted(key) or []) if is_again else [])

    def add(self, rows: int) -> None:
        """Note a part, before anybody has it."""
        self.rows.append(rows)
        note(self.key, self.rows)


def in_same_parts(stage: Stage, job: Job) -> Stage:
    """What a stage makes of batches, in the same parts each time."""

    def run_anew(batch: RowBatch) -> Iterator[RowBatch]:
        begun, notes, left = time.monotonic(), Notes.of_task(job, batch), batch
        recorded = recorded_ids(job) if notes.rows else IdRanges.of(())
        for rows in [*notes.rows]:
            part, left = divided(left, rows)
            yield empty(part) if is_in(part, recorded) else merge([*stage(part)], concatenated)
        if notes.rows and not len(left.rows):
            return
        for made in stage(left):
            rows = settled_rows(made, left)
            is_whole = rows == num_parents(left.rows) and not notes.rows
            if not is_whole or time.monotonic() - begun > SOON_SECONDS:
                notes.add(rows)
            _, left = divided(left, rows)
            yield made

    return run_anew


def divided(batch: RowBatch, rows: int) -> tuple[RowBatch, RowBatch]:
    """The first so many rows, with all else that a batch knows, and the rest."""
    first, rest = cut(batch.rows, rows)
    others = replace(batch, rows=rest, rejected=(), filtered=IdRuns(), ends=(), seconds={})
    return replace(batch, rows=first), others


def empty(batch: RowBatch) -> RowBatch:
    """Nothing of a batch."""
    return RowBatch(batch.rows.slice(0, 0))


def settled_rows(made: RowBatch, batch: RowBatch) -> int:
    """Rows of a batch that came out; the children of one row count once."""
    if len(made.rows) == len(batch.rows) and np.array_equal(made.ids, batch.ids):
        return num_parents(batch.rows)  # as nearly always
    settled = [made.ids, made.filtered.ids(), as_ids(each.id for each in made.rejected)]
    return int(are_in(distinct(np.concatenate(settled)), distinct(batch.ids)).sum())


def is_in(batch: RowBatch, recorded: IdRanges) -> bool:
    """Whether all rows of a batch are done; not of one without rows, which may hold other news."""
    ids = distinct(batch.ids)
    return len(ids) > 0 and bool((recorded.rank(ids + 1) > recorded.rank(ids)).all())


def recorded_ids(job: Job) -> IdRanges:
    """Rows that the run has done by its records; none where these cannot be had, or are too many.

    Rows set aside are not among them: an earlier attempt may have left these, and this one is to
    try them again.
    """
    records = list[Record]()
    with suppress(OSError):  # what is done is then done once more
        if len(job.storage.list(job.run.records)) <= MOST_RECORDS:
            records = load_records(job.storage, job.run)
    own = [each for each in records if each.plan == job.plan]
    return IdRanges.of(each.settled for each in own)
