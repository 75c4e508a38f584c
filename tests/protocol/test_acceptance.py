"""Acceptance and gap, compared with an implementation that is slow and plain."""

from dataclasses import asdict, replace

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.protocol.acceptance import Accepted, accept, find_gap
from tasks.protocol.batch import ShardEnd
from tasks.protocol.ids import IdRuns, as_ids, row_id
from tasks.protocol.plan_file import Plan, Shard, shard_table
from tasks.protocol.ranges import IdRanges
from tasks.protocol.records import Record, StagedFile
from tasks.protocol.redrive_shards import PLAN_SCHEMA
from tasks.protocol.shard_ends import EndRuns

pytestmark = pytest.mark.usefixtures("either_encoding")
PINS = {"next_number": 9}
NUMBERS = (0, 1, 4)
rows_known = st.none() | st.integers(0, 3)


def shards_with(rows: tuple[int | None, ...]) -> list[Shard]:
    return [Shard(n, f"{n}", "v", 1, rows=r) for n, r in zip(NUMBERS, rows, strict=True)]


def redrive_of(shards: list[Shard], asides: list[tuple[set[int], bool]]) -> Plan:
    """A plan of rows of another run's shards, or of all rows."""
    lines = [
        {
            **asdict(shard),
            "origin_run": "o",
            "aside": IdRuns.of(as_ids(row_id(7, row) for row in sorted(rows))).as_json(),
            "whole": whole,
            "read_as": "o",
        }
        for shard, (rows, whole) in zip(shards, asides, strict=True)
    ]
    return Plan(pa.Table.from_pylist(lines, PLAN_SCHEMA), PINS, ("ancestor",))


asides = st.tuples(st.sets(st.integers(0, 3), min_size=1), st.booleans())
shards = st.tuples(rows_known, rows_known, rows_known).map(shards_with)
plans = st.one_of(
    shards.map(lambda each: Plan(shard_table(each), PINS, ("ancestor",))),
    st.builds(redrive_of, shards, st.lists(asides, min_size=3, max_size=3)),
)
# Shard 2 is not in the plan; row 3 is beyond many a shard's end.
row_ids = st.builds(row_id, st.sampled_from([0, 0, 1, 1, 4, 4, 2]), st.sampled_from([0, 1, 2, 3]))


@st.composite
def records(draw: st.DrawFn) -> Record:
    """A record of some plan; now and then one that says a row twice."""
    mine = draw(st.lists(row_ids, max_size=5, unique=draw(st.integers(0, 9)) > 0))
    kinds = draw(st.lists(st.sampled_from("ooofr"), min_size=len(mine), max_size=len(mine)))
    of = {k: [i for i, o in zip(mine, kinds, strict=True) if o == k] for k in "ofr"}
    runs = {kind: IdRuns.of(as_ids(ids)) for kind, ids in of.items()}
    ends = draw(
        st.lists(st.builds(ShardEnd, st.sampled_from(NUMBERS), st.integers(2, 3)), max_size=1)
    )
    both = IdRuns.of(as_ids(sorted([*of["o"], *of["f"]])))
    return Record(
        name="r",
        plan=draw(st.sampled_from(["own", "own", "own", "ancestor", "stranger"])),
        schema=draw(st.sampled_from(["s", "s", "s", "t"])),
        files=(StagedFile("f", runs["o"], 1),) if of["o"] else (),
        quarantine=StagedFile("q", runs["r"], 1) if of["r"] else None,
        ok=runs["o"],
        filtered=runs["f"],
        ends=EndRuns.of(ends),
        together=draw(st.sampled_from([None, both or None])),
    )


histories = st.lists(records(), max_size=8)


def of_plan(history: list[Record], plan: Plan) -> list[Record]:
    """Records of the plan's own generation bear its digest."""
    return [replace(r, plan=plan.digest) if r.plan == "own" else r for r in history]


def rows_by_shard(accepted: Accepted) -> dict[int, int]:
    ends = accepted.ends
    return dict(zip(ends.shards.tolist(), ends.rows.tolist(), strict=True))


def rows_of(record: Record, *kinds: str) -> list[int]:
    return [row for kind in kinds for row in getattr(record, kind).ids().tolist()]


def wanted_in(plan: Plan) -> dict[int, set[int]]:
    """Rows asked for, of shards of which not all are."""
    return {number: set(ids.tolist()) for number, ids in plan.wanted.items()}


def slowly_accepted(history: list[Record], plan: Plan) -> list[Record]:
    """What the rules say, word by word."""
    history = [record for record in history if record.plan in ("ancestor", plan.digest)]
    limits = dict(zip(plan.numbers.tolist(), plan.shards["rows"].to_pylist(), strict=True))
    wanted = wanted_in(plan)
    ends: dict[int, int] = {}
    for record in history:
        for end in record.ends:
            ends.setdefault(end.shard, end.rows)
    limits |= ends

    def is_asked_for(row: int) -> bool:
        if row >> 32 in wanted:
            return row in wanted[row >> 32]
        limit = limits.get(row >> 32, 0)
        return limit is None or row % 2**32 < limit

    fitting = [
        record
        for record in history
        if all(end.shard in wanted or ends[end.shard] == end.rows for end in record.ends)
        and all(map(is_asked_for, rows_of(record, "ok", "filtered", "rejected")))
    ]
    schema = next((record.schema for record in fitting if record.files), "")
    taken: list[Record] = []
    seen: set[int] = set()
    for record in fitting:
        own = rows_of(record, "ok", "filtered")
        is_alien = bool(record.files) and record.schema != schema
        if is_alien or len(set(own)) < len(own) or seen & set(own):
            continue
        seen |= set(own)
        taken.append(record)
    return taken


@given(plans, histories)
def test_records_are_taken_as_the_rules_say(plan: Plan, history: list[Record]) -> None:
    history = of_plan(history, plan)
    accepted = accept(history, plan)
    taken = slowly_accepted(history, plan)
    assert list(accepted.records) == taken
    settled = {row for record in taken for row in rows_of(record, "ok", "filtered")}
    assert accepted.settled.ids().tolist() == sorted(settled)
    rejected = {row for record in taken for row in rows_of(record, "rejected")} - settled
    assert accepted.rejected.ids().tolist() == sorted(rejected)
    ends = [(end.shard, end.rows) for record in taken for end in record.ends]
    assert rows_by_shard(accepted) == dict(reversed(ends))


@given(plans, histories)
def test_what_is_accepted_is_disjoint(plan: Plan, history: list[Record]) -> None:
    accepted = accept(of_plan(history, plan), plan)
    settled = [row for record in accepted.records for row in rows_of(record, "ok", "filtered")]
    everything = [*settled, *accepted.rejected.ids().tolist()]
    assert len(everything) == len(set(everything))
    assert accepted.num_ok + accepted.num_filtered == len(settled)


@given(plans, histories, st.booleans())
@example(Plan(shard_table([]), PINS), [], True)
def test_gap_is_what_is_not_covered(plan: Plan, history: list[Record], retry: bool) -> None:
    accepted = accept(of_plan(history, plan), plan)
    done = set(accepted.settled.ids().tolist())
    done |= set() if retry else set(accepted.rejected.ids().tolist())
    ends = rows_by_shard(accepted)
    left: dict[int, list[int]] = {}
    missing: list[int | None] = []
    for number, known in zip(plan.numbers.tolist(), plan.shards["rows"].to_pylist(), strict=True):
        asked_for = wanted_in(plan).get(number)
        rows = ends.get(number, known) if asked_for is None else len(asked_for)
        covered = sorted(row for row in done if row >> 32 == number)
        if rows is None or len(covered) < rows:
            left[number] = covered
            missing.append(None if rows is None else rows - len(covered))
    gap = find_gap(plan, accepted, retry_rejected=retry)
    assert bool(gap) == bool(left)
    todo = gap.todo(plan)
    assert todo["number"].to_pylist() == list(left)
    told = map(IdRanges.of_json, todo["covered"].to_pylist())
    assert [each.ids().tolist() for each in told] == list(left.values())
    known_missing = [rows for rows in missing if rows is not None]
    assert gap.rows == (sum(known_missing) if len(known_missing) == len(missing) else None)


def test_a_plan_of_no_shards_has_no_gap() -> None:
    plan = Plan(shard_table([]), PINS)
    accepted: Accepted = accept([], plan)
    assert not find_gap(plan, accepted, retry_rejected=True)
