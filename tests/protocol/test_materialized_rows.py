"""Kept batches as another run takes them: every row it wants once, under its own ids."""

import time
import tracemalloc
from collections import Counter
from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tasks.protocol.acceptance import accept, find_gap
from tasks.protocol.batch import ROW, Rejection, RowBatch, ShardEnd
from tasks.protocol.ids import IdRuns, Ids, as_ids, row_id
from tasks.protocol.layout import RunFolder
from tasks.protocol.materialized_rows import Kept, MaterializedRun, kept_for, take
from tasks.protocol.plan_file import Plan, Shard, first_plan, shard_table
from tasks.protocol.records import Encoded, Part, Record, StagedFile, load_records, store
from tasks.protocol.shard_ends import EndRuns
from tests.simulation.storage import Calm, SimStorage

NAMES = ("a", "b", "c")
OUTCOMES = ("ok", "child", "filtered", "rejected", "mended", "rejected again")
"""Of a row; the last two have been set aside by an earlier batch as well."""
shards_rows = st.fixed_dictionaries(
    {name: st.lists(st.sampled_from(OUTCOMES), max_size=4) for name in NAMES}
)
Rows = dict[str, list[str]]


def plan_of(names: str) -> Plan:
    """A plan of whole inputs whose lengths nobody knows."""
    return first_plan(shard_table([Shard(0, name, "v", 1) for name in names]), {})


def encode(batch: RowBatch) -> Encoded:
    """As a first job does it."""
    ids = as_ids(each.id for each in batch.rejected)
    aside = Part(b"", ".aside", ids) if batch.rejected else None
    return Encoded([Part(batch.to_bytes("zstd").to_pybytes(), ".batch", batch.ids)], aside, "")


def batch_of(names: str, plan_names: str, rows: Rows, *, first: bool) -> RowBatch:
    """All rows of some inputs; the first time with what is then done once more."""
    ids: dict[str, list[int]] = {"ok": [], "filtered": [], "rejected": []}
    for name in names:
        for row, outcome in enumerate(rows[name]):
            at = row_id(plan_names.index(name), row)
            twice = outcome in ("mended", "rejected again")
            if not first and not twice:
                continue
            aside = outcome.startswith("rejected") or (first and twice)
            kind = "rejected" if aside else "filtered" if outcome == "filtered" else "ok"
            ids[kind] += [at] * (2 if outcome == "child" else 1)
    numbers = {plan_names.index(name): name for name in names}
    values = [f"{numbers[i >> 32]}{i % 2**32}" for i in ids["ok"]]
    reason = "first" if first else "again"
    return RowBatch(
        rows=pa.table(
            {ROW: pa.array(ids["ok"], pa.int64()), "value": pa.array(values, pa.string())}
        ),
        rejected=tuple(
            Rejection(i, numbers[i >> 32], i % 2**32, "read", "E", reason, "{}")
            for i in ids["rejected"]
        ),
        filtered=IdRuns.of(as_ids(ids["filtered"])),
        ends=tuple(ShardEnd(n, len(rows[name])) for n, name in numbers.items()) if first else (),
        sources=numbers,
    )


def outcomes(batch: RowBatch, names: str) -> list[tuple[str, int, str]]:
    """What became of each row, by input and row."""
    found = [(int(i), "ok") for i in batch.ids]
    found += [(int(i), "filtered") for i in batch.filtered.ids()]
    found += [(each.id, each.error_message) for each in batch.rejected]
    return [(names[i >> 32], i % 2**32, outcome) for i, outcome in found]


def expected(rows: Rows, names: str) -> list[tuple[str, int, str]]:
    says = {"rejected": "first", "rejected again": "again", "mended": "ok", "child": "ok"}
    return [
        (name, row, says.get(outcome, outcome))
        for name in names
        for row, outcome in enumerate(rows[name])
        for _ in range(2 if outcome == "child" else 1)
    ]


def done_of(plan: Plan, ids: Ids) -> Record:
    """A record of rows that are settled already."""
    return Record("0", plan.digest, "", ok=IdRuns.of(ids))


@given(shards_rows, st.permutations(NAMES), st.integers(1, 3), st.integers(0, 2))
def test_every_row_is_taken_once_under_its_own_id(
    rows: Rows, order: list[str], count: int, done: int
) -> None:
    storage, run, theirs = SimStorage(Calm()), RunFolder("kept"), plan_of("abc")
    for names in ("ab", "c"):
        store(storage, run, theirs.digest, batch_of(names, "abc", rows, first=True), encode)
    store(storage, run, theirs.digest, batch_of("abc", "abc", rows, first=False), encode)
    kept_there = MaterializedRun(run, theirs, accept(load_records(storage, run), theirs))
    own = "".join(order[:count])
    plan = plan_of(own)
    settled = as_ids(row_id(0, row) for row in range(min(done, len(rows[own[0]]))))
    accepted = accept([done_of(plan, settled)], plan)
    kept = kept_for(plan, accepted, find_gap(plan, accepted, retry_rejected=True), [kept_there])
    lines = [Kept.of_line(each.line) for each in kept]
    batches = [take(RowBatch.from_bytes(pa.py_buffer(storage.read(e.file))), e) for e in lines]
    taken = [each for batch in batches for each in outcomes(batch, own)]
    left = [each for each in expected(rows, own) if not (each[0] == own[0] and each[1] < done)]
    assert Counter(taken) == Counter(left)
    assert sum(each.rows for each in kept) == len({each[:2] for each in left})
    ends = {own[end.shard]: end.rows for batch in batches for end in batch.ends}
    assert ends == {name: len(rows[name]) for name in own}
    for batch in batches:
        where = [batch.where(int(i)) for i in batch.ids]
        assert batch.rows["value"].to_pylist() == [f"{path}{row}" for path, row in where]


def test_rows_that_are_done_are_not_held_one_by_one() -> None:
    storage, run, theirs = SimStorage(Calm()), RunFolder("kept"), plan_of("ab")
    rows = {"a": ["ok"] * 4, "b": ["ok"] * 4}
    store(storage, run, theirs.digest, batch_of("ab", "ab", rows, first=True), encode)
    kept_there = MaterializedRun(run, theirs, accept(load_records(storage, run), theirs))
    plan, many = plan_of("ab"), 10**7
    done = Record("0", plan.digest, "", ok=IdRuns(((row_id(0, 1), many, 1),)))
    accepted = accept([done], plan)
    gap = find_gap(plan, accepted, retry_rejected=True)
    tracemalloc.start()
    (kept,) = kept_for(plan, accepted, gap, [kept_there])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept.rows == 5
    assert most < many


def test_of_many_rows_set_aside_by_many_batches_each_is_looked_at_once() -> None:
    count, each = 2_000, 100
    theirs, plan = plan_of("a"), plan_of("a")
    aside = [
        StagedFile(f"{at}.aside", IdRuns.of(as_ids(range(at, count * each, count))), 1)
        for at in range(count)
    ]
    records = [
        Record(f"{at:04}", theirs.digest, "", (StagedFile(f"{at}.batch", IdRuns(), 1),), file)
        for at, file in enumerate(aside)
    ]
    ended = replace(records[0], name="end", quarantine=None, ends=EndRuns(((0, count * each, 1),)))
    accepted = accept([*records, ended], theirs)
    run = MaterializedRun(RunFolder("kept"), theirs, accepted)
    own = accept([], plan)
    begun = time.thread_time()
    kept = kept_for(plan, own, find_gap(plan, own, retry_rejected=True), [run])
    assert time.thread_time() - begun < 1.5, "it took 3.5 s"
    assert sum(each.rows for each in kept) == count * each
