"""Which records count, what they cover, and what is left to do.

Ray retries write tasks that had finished, cuts batches anew when it replays, and a dead attempt's
worker can still write. All of that is a record as good as any other, or one that is skipped.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from tasks.protocol.ids import ROW_BITS, Ids, Mask, as_ids, row_of, shard_of
from tasks.protocol.plan_file import UNKNOWN, Plan
from tasks.protocol.ranges import IdRanges, Spans, late
from tasks.protocol.records import Record
from tasks.protocol.shard_ends import Ends


@dataclass(frozen=True)
class Accepted:
    """Records taken, in order, and the outcome of every row they name."""

    records: tuple[Record, ...]
    settled: IdRanges
    """Rows that need no second look: they came through, or a step left them out."""
    rejected: IdRanges
    """Rows whose only outcome so far is a rejection."""
    ends: Ends
    """Shards read to their end."""

    @cached_property
    def num_filtered(self) -> int:
        """Rows that a step left out."""
        return sum(len(record.filtered) for record in self.records)

    @property
    def num_ok(self) -> int:
        """Rows that came through."""
        return len(self.settled) - self.num_filtered

    @property
    def done(self) -> int:
        """Rows that have an outcome, and shards read to their end."""
        return len(self.settled) + len(self.rejected) + len(self.ends.shards)


@dataclass(frozen=True)
class Gap:
    """What the accepted records do not cover, as positions in the plan's shard table."""

    shards: Ids
    """Positions of the shards that have something left."""
    covered: IdRanges
    """Their ids that need no second look, or none for now: what is left out of the todo."""
    rows: int | None
    """Rows missing; None while a shard's length is unknown."""
    done: int
    """Rows that have an outcome and shards read to their end: each record that counts adds some."""
    schemas: int = 0
    """How often the output's schema was pinned: under another one than the last nothing counts."""

    def __bool__(self) -> bool:
        return len(self.shards) > 0

    def todo(self, plan: Plan) -> pa.Table:
        """The shards to read, with what to leave out in the column `covered`, as JSON."""
        starts, stops, numbers = self.covered.starts, self.covered.stops, plan.numbers[self.shards]
        first = np.searchsorted(starts, numbers << ROW_BITS)
        last = np.append(first[1:], len(starts))
        covered = np.full(len(numbers), IdRanges.of(()).as_json(), dtype=object)
        for at in np.flatnonzero(first < last):
            own = slice(first[at], last[at])
            covered[at] = IdRanges(starts[own], stops[own]).as_json()
        is_left = np.zeros(len(plan.shards), dtype=bool)
        is_left[self.shards] = True
        table = plan.shards if is_left.all() else plan.shards.filter(pa.array(is_left))
        return table.append_column("covered", pa.array(covered, pa.string()))


def accept(records: list[Record], plan: Plan) -> Accepted:
    """Take records in order; skip whole any that overlaps one taken or leaves the plan.

    Overlap counts rows that are ok or filtered: ends may be repeated, and a later outcome replaces
    a rejection.
    """
    mine = [record for record in records if record.plan in plan.lineage]
    settled = Spans.of(record.settled for record in mine)
    rejected = Spans.of((record.rejected,) for record in mine)
    fits = fitting(mine, (settled, rejected), plan)
    counts = of_first_schema(mine, fits)
    counts &= ~overlapping(settled, counts)
    done = settled.of_owners(counts).joined()
    taken = [mine[at] for at in np.flatnonzero(counts)]
    return Accepted(
        records=tuple(taken),
        settled=done,
        rejected=rejected.of_owners(counts).joined() - done,
        ends=Ends.of(record.ends for record in taken).first(),
    )


def shard_limits(plan: Plan, ends: Ends) -> Ids:
    """Rows of each shard of the plan's table, or UNKNOWN."""
    limits = plan.lengths.copy()
    at = positions(plan, ends.shards)
    known = at >= 0
    limits[at[known]] = ends.rows[known]
    return limits


def positions(plan: Plan, numbers: Ids) -> Ids:
    """Where shards stand in the plan's table; -1 for those that do not."""
    own = plan.numbers
    if len(own) == 0:
        return np.full(len(numbers), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(own, numbers), len(own) - 1)
    return np.where(own[at] == numbers, at, -1)


def rows_to_do(plan: Plan, limits: Ids) -> Ids:
    """Rows of each shard that the plan asks for, or UNKNOWN: all, but in a redrive."""
    if not plan.wanted:
        return limits
    limits = limits.copy()
    limits[positions(plan, as_ids(plan.wanted))] = [len(ids) for ids in plan.wanted.values()]
    return limits


def fitting(records: list[Record], named: tuple[Spans, ...], plan: Plan) -> Mask:
    """Records of this plan's rows only, which give a shard the length that the first one gives.

    But where a plan asks for some rows only, they are all that counts: of a shard's length two
    releases may think otherwise, and an input that has not changed is read by both.

    Args:
        records: some.
        named: rows that they name.
        plan: the plan in force.
    """
    ends = Ends.of(record.ends for record in records)
    first = ends.first()
    differs = first.rows[np.searchsorted(first.shards, ends.shards)] != ends.rows
    partial = as_ids(plan.wanted)
    differs &= ~np.isin(ends.shards, partial)
    differs |= positions(plan, ends.shards) < 0
    limits, fits = shard_limits(plan, first), np.ones(len(records), dtype=bool)
    limits[positions(plan, partial)] = UNKNOWN
    fits[ends.owners[differs]] = False
    for spans in named:
        fits[spans.owners[are_outside(spans, plan, limits)]] = False
    return fits


def are_outside(spans: Spans, plan: Plan, limits: Ids) -> Mask:
    """Which spans name a row that the plan does not have, or that a redrive's does not ask for."""
    # A shard that is not in the plan is at position -1, and has no rows.
    limit = np.append(limits, 0)[positions(plan, shard_of(spans.starts))]
    outside = (limit != UNKNOWN) & (row_of(spans.stops - 1) >= limit)
    if plan.wanted:
        ids = np.sort(np.concatenate(list(plan.wanted.values())))
        asked = IdRanges.joined(ids, ids + 1)
        num_asked = asked.rank(spans.stops) - asked.rank(spans.starts)
        is_partial = np.isin(shard_of(spans.starts), as_ids(plan.wanted))
        outside |= is_partial & (num_asked < spans.stops - spans.starts)
    return outside


def of_first_schema(records: list[Record], chosen: Mask) -> Mask:
    """Which of the chosen records have no rows, or the schema of the first that has."""
    schemas = [records[at].schema if records[at].files else None for at in np.flatnonzero(chosen)]
    first = next((schema for schema in schemas if schema is not None), None)
    same = chosen.copy()
    same[chosen] = [schema in (None, first) for schema in schemas]
    return same


def overlapping(settled: Spans, chosen: Mask) -> Mask:
    """Which of the chosen records share a row with one that comes before them, or name it twice."""
    found = np.zeros(len(chosen), dtype=bool)
    found[list(late(settled.of_owners(chosen).shared()))] = True
    return found


def find_gap(plan: Plan, accepted: Accepted, *, retry_rejected: bool) -> Gap:
    """What is left: shards without an end, and rows without an outcome.

    Args:
        plan: the plan in force.
        accepted: what the records cover.
        retry_rejected: whether rows set aside so far count as left to do.
    """
    limits = rows_to_do(plan, shard_limits(plan, accepted.ends))
    covered = accepted.settled if retry_rejected else accepted.settled | accepted.rejected
    counts = covered.count_in(plan.numbers)
    # Ids are unique and below the limit (in a redrive: wanted), so a full count is exact cover.
    left = np.flatnonzero((limits == UNKNOWN) | (counts < limits))
    missing = limits[left] - counts[left]
    rows = None if (limits[left] == UNKNOWN).any() else int(missing.sum())
    return Gap(left, covered.in_shards(plan.numbers[left]), rows, accepted.done)
