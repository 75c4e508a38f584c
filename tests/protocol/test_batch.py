"""Batches on their way: there and back, and several as one."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import SchemaMismatch
from tasks.protocol.batch import (
    ROW,
    Rejection,
    RowBatch,
    ShardEnd,
    merge,
    settled_ids,
    without,
)
from tasks.protocol.ids import IdRuns, as_ids

pytestmark = pytest.mark.usefixtures("either_encoding")
ids = st.integers(0, 12)
seconds = st.floats(0, 1e6)
spans = st.none() | st.tuples(seconds, seconds)


@st.composite
def batches(draw: st.DrawFn) -> RowBatch:
    """Rows with one outcome each; some have children."""
    mine = draw(st.lists(ids, unique=True))
    outcomes = draw(st.lists(st.sampled_from("occrf"), min_size=len(mine), max_size=len(mine)))
    of = {kind: [i for i, o in zip(mine, outcomes, strict=True) if o == kind] for kind in "ocrf"}
    rows = of["o"] + [child for parent in of["c"] for child in (parent, parent)]
    values = draw(st.lists(st.text(), min_size=len(rows), max_size=len(rows)))
    return RowBatch(
        rows=pa.table({ROW: pa.array(rows, pa.int64()), "value": pa.array(values, pa.string())}),
        rejected=tuple(Rejection(i, "a", i, "infer", "E", draw(st.text()), "{}") for i in of["r"]),
        filtered=IdRuns.of(as_ids(of["f"])),
        ends=tuple(draw(st.lists(st.builds(ShardEnd, ids, ids), max_size=2))),
        sources=draw(st.dictionaries(ids, st.text(), max_size=2)),
        first_rows=draw(st.dictionaries(ids, ids, max_size=2)),
        seconds=draw(st.dictionaries(st.sampled_from(["read", "infer"]), seconds)),
        inferred_at=draw(spans),
    )


@given(batches())
def test_bytes_give_the_batch_back(batch: RowBatch) -> None:
    assert RowBatch.from_bytes(batch.to_bytes()) == batch


def test_bytes_keep_the_metadata_of_the_rows() -> None:
    rows = pa.table({ROW: pa.array([1], pa.int64())}).replace_schema_metadata({"pandas": "{}"})
    back = RowBatch.from_bytes(RowBatch(rows).to_bytes())
    assert back.rows.schema.metadata == {b"pandas": b"{}"}


@given(batches(), st.sets(ids))
def test_without_leaves_nothing_of_an_id_and_all_of_the_others(
    batch: RowBatch, gone: set[int]
) -> None:
    left = without(batch, as_ids(sorted(gone)))
    assert settled_ids(left).tolist() == sorted({*settled_ids(batch).tolist()} - gone)
    assert left.ids.tolist() == [row for row in batch.ids.tolist() if row not in gone]


@given(st.lists(batches(), min_size=1, max_size=4))
def test_merge_keeps_the_first_of_each_row(several: list[RowBatch]) -> None:
    merged = merge(several)
    first = {row: batch for batch in reversed(several) for row in settled_ids(batch).tolist()}
    assert {*settled_ids(merged).tolist()} == first.keys()
    found = zip(merged.ids.tolist(), merged.rows["value"].to_pylist(), strict=True)
    assert sorted(found) == sorted(
        pair
        for batch in several
        for pair in zip(batch.ids.tolist(), batch.rows["value"].to_pylist(), strict=True)
        if first[pair[0]] is batch
    )
    outcomes = [*set(merged.ids.tolist()), *merged.filtered.ids().tolist()]
    outcomes += [rejection.id for rejection in merged.rejected]
    assert len(outcomes) == len(set(outcomes))


@given(st.lists(batches(), min_size=1, max_size=4))
def test_merge_adds_up_ends_and_seconds(several: list[RowBatch]) -> None:
    merged = merge(several)
    assert merged.ends == tuple(end for batch in several for end in batch.ends)
    total = sum(sum(batch.seconds.values()) for batch in several)
    assert abs(sum(merged.seconds.values()) - total) <= 1e-9 * max(1.0, total)


def test_merge_takes_the_columns_of_batches_with_rows() -> None:
    empty = RowBatch(pa.table({ROW: pa.array([], pa.int64())}), ends=(ShardEnd(0, 0),))
    full = RowBatch(pa.table({ROW: pa.array([1], pa.int64()), "value": ["x"]}))
    assert merge([empty, full]).rows.column_names == [ROW, "value"]


def one_row(row: int, value: object) -> RowBatch:
    return RowBatch(pa.table({ROW: pa.array([row], pa.int64()), "value": [value]}))


def test_merge_takes_whole_numbers_and_fractions() -> None:
    """NumPy has whole numbers until one is missing."""
    merged = merge([one_row(1, 7), one_row(2, None), one_row(3, float("nan")), one_row(4, 0.5)])
    assert merged.rows["value"].type == pa.float64()
    assert merged.rows["value"].to_pylist()[::3] == [7.0, 0.5]


def test_merge_names_the_types_that_do_not_go_together() -> None:
    with pytest.raises(SchemaMismatch, match="value is int64 and string: "):
        merge([one_row(1, 7), one_row(2, 8), one_row(3, "seven")])


def test_where_knows_file_and_row() -> None:
    batch = RowBatch(
        pa.table({ROW: pa.array([], pa.int64())}), sources={1: "a"}, first_rows={1: 10}
    )
    assert batch.where((1 << 32) + 5) == ("a", 15)
    assert batch.where(2 << 32) == ("shard 2", 0)
