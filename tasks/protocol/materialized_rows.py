"""Rows of `stages.preprocess.materialize`: which a job has kept for the next, and what to take.

They lie in runs of their own that are never published, each with a plan and records. A shard's
number is that run's, so rows get the ids that the run has which takes them.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.protocol.acceptance import Accepted, Gap, find_gap
from tasks.protocol.batch import ROW, RowBatch, ShardEnd, without
from tasks.protocol.ids import (
    MAX_ROWS,
    ROW_BITS,
    IdRuns,
    Ids,
    are_in,
    as_ids,
    distinct,
    row_of,
    shard_of,
)
from tasks.protocol.layout import RunFolder
from tasks.protocol.plan_file import Content, Plan, shards_of
from tasks.protocol.ranges import IdRanges
from tasks.protocol.records import Record, all_ids
from tasks.protocol.shard_ends import Ends

KEPT_SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),  # left to do
        ("numbers", pa.string()),  # JSON: [number there, number here] of each shard to take
        ("covered", pa.string()),  # JSON: runs of ids, as they are here, to leave out
    ]
)


@dataclass(frozen=True)
class Kept:
    """A batch that was kept, and what to take of it."""

    file: str
    size: int
    rows: int
    numbers: dict[int, int]
    """Shards to take: their number in the plan it was made by, and the one in ours."""
    covered: IdRuns

    @property
    def line(self) -> dict[str, Any]:
        """As a line of a todo."""
        numbers = json.dumps(list(self.numbers.items()))
        return {**self.__dict__, "numbers": numbers, "covered": self.covered.as_json()}

    @classmethod
    def of_line(cls, line: dict[str, Any]) -> "Kept":
        """Read back."""
        numbers, covered = dict(json.loads(line["numbers"])), IdRuns.of_json(line["covered"])
        return cls(line["file"], line["size"], line["rows"], numbers, covered)


@dataclass(frozen=True)
class MaterializedRun:
    """What one run has kept."""

    run: RunFolder
    plan: Plan
    accepted: Accepted

    @cached_property
    def numbers(self) -> dict[Content, int]:
        """Numbers of the shards of which every row has an outcome."""
        left = find_gap(self.plan, self.accepted, retry_rejected=False).shards
        whole = np.delete(np.arange(len(self.plan.shards)), left)
        shards = shards_of(self.plan.shards.take(pa.array(whole, pa.int64())))
        return {shard.content: shard.number for shard in shards}


def kept_for(plan: Plan, accepted: Accepted, gap: Gap, runs: list[MaterializedRun]) -> list[Kept]:
    """The batches to take for what is left of a plan; each shard's from the first run that has it.

    Args:
        plan: of the run that takes them.
        accepted: what that run has done.
        gap: what it has not.
        runs: where to look.

    Raises:
        FileNotFoundError: nobody has kept a shard; names its path.
    """
    left = {s.content: s.number for s in shards_of(plan.shards.take(pa.array(gap.shards)))}
    found: list[Kept] = []
    for run in runs:
        numbers = {run.numbers[each]: left.pop(each) for each in [*left] if each in run.numbers}
        found += kept_by(run, numbers, gap.covered, accepted.ends)
    if left:
        raise FileNotFoundError(next(iter(left))[0])
    return found


def kept_by(
    run: MaterializedRun, numbers: dict[int, int], covered: IdRanges, ends: Ends
) -> Iterator[Kept]:
    """A run's batches with rows or ends of some shards that are not settled."""
    aside = set(run.accepted.rejected.ids().tolist())
    for record in reversed(run.accepted.records):  # of a row set aside twice, the last reason
        rejected = record.rejected.ids()
        last = np.array([each in aside for each in rejected.tolist()], dtype=bool)
        aside.difference_update(rejected.tolist())
        own = {number: numbers[number] for number in shards_in(record) if number in numbers}
        ids = renumbered(np.concatenate([all_ids(record.settled), rejected[last]]), own)
        done = ids[covered.has(ids)]
        ended = as_ids(own[end.shard] for end in record.ends if end.shard in own)
        if len(done) == len(ids) and are_in(ends.shards, ended).all():
            continue
        (file,) = record.files
        without_ids = distinct(np.append(done, renumbered(rejected[~last], own)))
        path = f"{run.run.staging}/{file.name}"
        yield Kept(path, file.size, len(ids) - len(done), own, IdRuns.of(without_ids))


def shards_in(record: Record) -> list[int]:
    """Numbers of the shards that a record speaks of."""
    ids = all_ids((*record.settled, record.rejected))
    return sorted({*distinct(shard_of(ids)).tolist(), *(end.shard for end in record.ends)})


def renumbered(ids: Ids, numbers: dict[int, int]) -> Ids:
    """Ids with their shards' other numbers; those of other shards are left out."""
    old = as_ids(sorted(numbers))
    ids = ids[are_in(old, shard_of(ids))]
    new = as_ids(numbers[number] for number in sorted(numbers))
    return new[np.searchsorted(old, shard_of(ids))] << ROW_BITS | row_of(ids)


def take(batch: RowBatch, kept: Kept) -> RowBatch:
    """What is wanted of a batch, with the ids that its rows have here."""
    numbers = kept.numbers
    wanted = batch.rows.filter(pa.array(np.isin(shard_of(batch.ids), as_ids(numbers))))
    ids = pa.array(renumbered(batch.ids, numbers))
    mine = replace(
        batch,
        rows=wanted.set_column(wanted.column_names.index(ROW), ROW, ids),
        rejected=tuple(
            replace(each, id=numbers[each.id >> ROW_BITS] << ROW_BITS | each.id & MAX_ROWS - 1)
            for each in batch.rejected
            if each.id >> ROW_BITS in numbers
        ),
        filtered=IdRuns.of(renumbered(batch.filtered.ids(), numbers)),
        ends=tuple(ShardEnd(numbers[e.shard], e.rows) for e in batch.ends if e.shard in numbers),
        sources={numbers[n]: path for n, path in batch.sources.items() if n in numbers},
        first_rows={numbers[n]: row for n, row in batch.first_rows.items() if n in numbers},
    )
    return without(mine, np.sort(kept.covered.ids())) if kept.covered else mine
