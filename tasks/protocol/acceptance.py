"""Which records count, what they cover, and what is left to do.

Ray retries write tasks that had finished, cuts batches anew when it replays, and a dead attempt's
worker can still write. All of that is a record as good as any other, or one that is skipped.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tasks.protocol.ids import ROW_BITS, IdRuns, Ids, are_in, as_ids, row_of, shard_of
from tasks.protocol.plan_file import UNKNOWN, Plan
from tasks.protocol.records import Record, all_ids, unique_in_order

NOTHING = IdRuns()


@dataclass(frozen=True)
class Accepted:
    """Records taken, in order, and the outcome of every row they name."""

    records: tuple[Record, ...]
    ok: Ids
    filtered: Ids
    rejected: Ids
    """Rows whose only outcome so far is a rejection."""
    ends: dict[int, int]
    """Rows by shard, for shards read to their end."""

    @property
    def settled(self) -> Ids:
        """Rows that need no second look, sorted."""
        return np.sort(np.concatenate([self.ok, self.filtered]), kind="stable")


@dataclass(frozen=True)
class Gap:
    """What the accepted records do not cover, as positions in the plan's shard table."""

    shards: Ids
    """Positions of the shards that have something left."""
    covered: tuple[IdRuns, ...]
    """For each of them the ids that are settled."""
    rows: int | None
    """Rows missing; None while a shard's length is unknown."""

    def __bool__(self) -> bool:
        return len(self.shards) > 0

    def todo(self, plan: Plan) -> pa.Table:
        """The shards to read, with what to leave out in the column `covered`."""
        covered = [[list(run) for run in runs.runs] for runs in self.covered]
        kind = pa.list_(pa.list_(pa.int64()))
        is_all = len(self.shards) == len(plan.shards)
        table = plan.shards if is_all else plan.shards.take(pa.array(self.shards))
        return table.append_column("covered", pa.array(covered, kind))


def accept(records: list[Record], plan: Plan) -> Accepted:
    """Take records in order; skip whole any that overlaps one taken or leaves the plan.

    Overlap counts rows published or filtered: ends may be repeated, and a later outcome replaces
    a rejection.
    """
    ends = first_ends(records, plan)
    limits = shard_limits(plan, ends)
    candidates = [record for record in records if fits(record, plan, limits, ends)]
    taken = without_overlap(candidates)
    ok = all_ids(record.ok for record in taken)
    filtered = all_ids(record.filtered for record in taken)
    rejected = unique_in_order(all_ids(record.rejected for record in taken))
    accepted = Accepted(
        records=tuple(taken),
        ok=ok,
        filtered=filtered,
        rejected=rejected,
        ends={end.shard: end.rows for record in taken for end in record.ends},
    )
    if not len(rejected):
        return accepted
    return replace(accepted, rejected=rejected[~are_in(accepted.settled, rejected)])


def first_ends(records: list[Record], plan: Plan) -> dict[int, int]:
    """The first end that a record of this plan's line names for each shard."""
    ends: dict[int, int] = {}
    for record in records:
        if record.plan in plan.lineage:
            for end in record.ends:
                ends.setdefault(end.shard, end.rows)
    return ends


def shard_limits(plan: Plan, ends: dict[int, int]) -> Ids:
    """Rows of each shard of the plan's table, or UNKNOWN."""
    limits = plan.lengths.copy()
    if ends:
        at = positions(plan, as_ids(ends))
        known = at >= 0
        limits[at[known]] = as_ids(ends.values())[known]
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


def fits(record: Record, plan: Plan, limits: Ids, ends: dict[int, int]) -> bool:
    """Whether a record speaks of this plan's rows only, with the first record's schema left out."""
    if record.plan not in plan.lineage:
        return False
    if any(ends[end.shard] != end.rows for end in record.ends):
        return False
    if (positions(plan, as_ids(end.shard for end in record.ends)) < 0).any():
        return False
    ids = all_ids((record.ok, record.filtered, record.rejected))
    at = positions(plan, shard_of(ids))
    if (at < 0).any():
        return False
    limit = limits[at]
    return bool(((limit == UNKNOWN) | (row_of(ids) < limit)).all()) and all_wanted(plan, ids)


def all_wanted(plan: Plan, ids: Ids) -> bool:
    """Whether a redrive's plan asks for all of these rows."""
    if not plan.wanted:
        return True
    asked = np.isin(ids, np.concatenate(list(plan.wanted.values())))
    return bool((asked | ~np.isin(shard_of(ids), as_ids(plan.wanted))).all())


def without_overlap(records: list[Record]) -> list[Record]:
    """Records of one schema that share no row, the first of them first."""
    with_rows = [record for record in records if record.files]
    schema = with_rows[0].schema if with_rows else ""
    records = [record for record in records if not record.files or record.schema == schema]
    ids = [all_ids((record.ok, record.filtered)) for record in records]
    # Records come nearly in order, and what is nearly in order a stable sort merges in one go.
    everything = np.sort(np.concatenate(ids), kind="stable") if ids else as_ids(())
    twice = np.unique(everything[1:][everything[1:] == everything[:-1]])
    taken: list[Record] = []
    seen: set[int] = set()
    for record, own in zip(records, ids, strict=True):
        shared = set(own[np.isin(own, twice)].tolist()) if len(twice) else set()
        if shared & seen or len(unique_in_order(own)) < len(own):
            continue
        seen |= shared
        taken.append(record)
    return taken


def find_gap(plan: Plan, accepted: Accepted, *, retry_rejected: bool) -> Gap:
    """What is left: shards without an end, and rows without an outcome.

    Args:
        plan: the plan in force.
        accepted: what the records cover.
        retry_rejected: whether rows set aside so far count as left to do.
    """
    limits = rows_to_do(plan, shard_limits(plan, accepted.ends))
    settled = accepted.settled
    if not retry_rejected:
        settled = np.sort(np.concatenate([settled, accepted.rejected]))
    counts = np.bincount(positions(plan, shard_of(settled)), minlength=len(limits))
    # Ids are unique and below the limit (in a redrive: wanted), so a full count is exact cover.
    left = np.flatnonzero((limits == UNKNOWN) | (counts < limits))
    numbers = plan.numbers[left]
    starts = np.searchsorted(settled, numbers << ROW_BITS)
    stops = np.searchsorted(settled, (numbers + 1) << ROW_BITS)
    covered = tuple(
        IdRuns.of(settled[start:stop]) if stop > start else NOTHING
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
    )
    missing = limits[left] - counts[left]
    return Gap(left, covered, None if (limits[left] == UNKNOWN).any() else int(missing.sum()))
