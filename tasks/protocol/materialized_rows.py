"""Rows of `stages.preprocess.materialize`: which a job has kept for the next, and what to take.

They lie in runs of their own that are never published, each with a plan and records. A shard's
number is that run's, so rows get the ids that the run has which takes them.
"""

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
    distinct,
    row_of,
    shard_of,
)
from tasks.protocol.layout import RunFolder
from tasks.protocol.plan_file import SHARD_SCHEMA, Plan
from tasks.protocol.ranges import IdRanges
from tasks.protocol.records import Record, all_ids
from tasks.protocol.same_shards import places_in
from tasks.protocol.shard_ends import Ends

KEPT_SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),  # left to do
        ("there", pa.string()),  # JSON: runs of numbers of the shards to take, where it was made
        ("here", pa.string()),  # JSON: runs of their numbers here
        ("covered", pa.string()),  # JSON: runs of ids, as they are here, to leave out
    ]
)
IN_RUNS = ("there", "here", "covered")


@dataclass(frozen=True)
class Kept:
    """A batch that was kept, and what to take of it."""

    file: str
    size: int
    rows: int
    there: IdRuns
    """Shards to take: their numbers in the plan it was made by."""
    here: IdRuns
    """Their numbers in ours, in the same order."""
    covered: IdRuns

    @property
    def line(self) -> dict[str, Any]:
        """As a line of a todo."""
        return {**self.__dict__, **{name: getattr(self, name).as_json() for name in IN_RUNS}}

    @classmethod
    def of_line(cls, line: dict[str, Any]) -> "Kept":
        """Read back."""
        return cls(**{**line, **{name: IdRuns.of_json(line[name]) for name in IN_RUNS}})


@dataclass(frozen=True)
class MaterializedRun:
    """What one run has kept."""

    run: RunFolder
    plan: Plan
    accepted: Accepted

    @property
    def last_record(self) -> str:
        """What it has recorded last, by name: names sort by time."""
        return max((record.name for record in self.accepted.records), default="")

    @cached_property
    def whole(self) -> pa.Table:
        """The shards of which every row has an outcome."""
        gap = find_gap(self.plan, self.accepted, retry_rejected=False)
        is_whole = np.ones(len(self.plan.shards), dtype=bool)
        is_whole[gap.shards] = False
        return self.plan.shards.select(SHARD_SCHEMA.names).filter(pa.array(is_whole))

    @property
    def rows_of_whole(self) -> tuple[Ids, Ids]:
        """How many rows of each of these were set aside, and how many were not."""
        numbers = self.whole["number"].to_numpy()
        return self.accepted.rejected.count_in(numbers), self.accepted.settled.count_in(numbers)


def left_of(plan: Plan, gap: Gap) -> pa.Table:
    """The shards of a plan that have something left."""
    is_left = np.zeros(len(plan.shards), dtype=bool)
    is_left[gap.shards] = True
    return plan.shards.filter(pa.array(is_left))


def first_kept(shards: pa.Table, runs: list[MaterializedRun]) -> Ids:
    """Where each shard stands first among those that some runs have kept wholly, one after another.

    Returns:
        Of a shard that none has kept, -1.
    """
    whole = pa.concat_tables([SHARD_SCHEMA.empty_table(), *(run.whole for run in runs)])
    places, first = places_in(shards, whole), np.full(len(shards), -1)
    for_one = np.flatnonzero(places >= 0)[::-1]
    first[places[for_one]] = for_one  # where several runs have kept one, the first is set last
    return first


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
    left = left_of(plan, gap)
    first, numbers = first_kept(left, runs), plan.numbers[gap.shards]
    if (first < 0).any():
        raise FileNotFoundError(left["path"][int(np.argmin(first))].as_py())
    order = np.argsort(first)
    first, numbers = first[order], numbers[order]
    found: list[Kept] = []
    for run in runs:
        count = int(np.searchsorted(first, len(run.whole)))
        there = run.whole["number"].to_numpy()[first[:count]]
        found += kept_by(run, there, numbers[:count], gap.covered, accepted.ends)
        first, numbers = first[count:] - len(run.whole), numbers[count:]
    return found


def kept_by(
    run: MaterializedRun, there: Ids, here: Ids, covered: IdRanges, ends: Ends
) -> Iterator[Kept]:
    """A run's batches with rows or ends of some shards that are not settled.

    Args:
        run: that has kept them.
        there: the shards' numbers in its plan, ascending.
        here: their numbers in ours.
        covered: our rows that are settled.
        ends: our shards that were read to their end.
    """
    aside = run.accepted.rejected.ids()
    is_open = np.ones(len(aside), dtype=bool)
    for record in reversed(run.accepted.records):  # of a row set aside twice, the last reason
        rejected = record.rejected.ids()
        last = are_in(aside, rejected)
        at = np.searchsorted(aside, rejected[last])
        last[last] = is_open[at]
        is_open[at] = False
        shards = shards_in(record)
        own = shards[are_in(there, shards)]
        own_here = here[np.searchsorted(there, own)]
        ids = renumbered(np.concatenate([all_ids(record.settled), rejected[last]]), own, own_here)
        done = ids[covered.has(ids)]
        ended = own_here[are_in(Ends.of([record.ends]).first().shards, own)]
        if len(done) == len(ids) and are_in(ends.shards, ended).all():
            continue
        (file,) = record.files
        without_ids = distinct(np.append(done, renumbered(rejected[~last], own, own_here)))
        path = f"{run.run.staging}/{file.name}"
        numbers = IdRuns.of(own), IdRuns.of(own_here)
        yield Kept(path, file.size, len(ids) - len(done), *numbers, IdRuns.of(without_ids))


def shards_in(record: Record) -> Ids:
    """Numbers of the shards that a record speaks of, ascending."""
    ids = all_ids((*record.settled, record.rejected))
    return distinct(np.append(shard_of(ids), Ends.of([record.ends]).shards))


def renumbered(ids: Ids, there: Ids, here: Ids) -> Ids:
    """Ids with their shards' other numbers; those of other shards are left out.

    Args:
        ids: some.
        there: the shards' numbers in them, ascending.
        here: the ones that they get.
    """
    ids = ids[are_in(there, shard_of(ids))]
    return here[np.searchsorted(there, shard_of(ids))] << ROW_BITS | row_of(ids)


def take(batch: RowBatch, kept: Kept) -> RowBatch:
    """What is wanted of a batch, with the ids that its rows have here."""
    there, here = kept.there.ids(), kept.here.ids()
    numbers = dict(zip(there.tolist(), here.tolist(), strict=True))
    wanted = batch.rows.filter(pa.array(are_in(there, shard_of(batch.ids))))
    ids = pa.array(renumbered(batch.ids, there, here))
    mine = replace(
        batch,
        rows=wanted.set_column(wanted.column_names.index(ROW), ROW, ids),
        rejected=tuple(
            replace(each, id=numbers[each.id >> ROW_BITS] << ROW_BITS | each.id & MAX_ROWS - 1)
            for each in batch.rejected
            if each.id >> ROW_BITS in numbers
        ),
        filtered=IdRuns.of(renumbered(batch.filtered.ids(), there, here)),
        ends=tuple(ShardEnd(numbers[e.shard], e.rows) for e in batch.ends if e.shard in numbers),
        sources={numbers[n]: path for n, path in batch.sources.items() if n in numbers},
        first_rows={numbers[n]: row for n, row in batch.first_rows.items() if n in numbers},
    )
    return without(mine, np.sort(kept.covered.ids())) if kept.covered else mine
