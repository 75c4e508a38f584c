"""Row ids and their runs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.protocol.ids import (
    IDS_IN_CACHE,
    MAX_ROWS,
    MAX_SHARDS,
    IdRuns,
    are_in,
    as_ids,
    row_id,
    row_of,
    shard_of,
)

pytestmark = pytest.mark.usefixtures("either_encoding")
shards = st.integers(0, MAX_SHARDS - 1)
rows = st.integers(0, MAX_ROWS - 1)
any_ids = st.lists(st.integers(0, 2**63 - 1))
near_ids = st.lists(st.builds(row_id, st.integers(0, 3), st.integers(0, 5)))


@given(shards, rows)
def test_id_gives_back_shard_and_row(shard: int, row: int) -> None:
    ids = as_ids([row_id(shard, row)])
    assert (shard_of(ids)[0], row_of(ids)[0]) == (shard, row)


@pytest.mark.parametrize(("shard", "row"), [(-1, 0), (MAX_SHARDS, 0), (0, -1), (0, MAX_ROWS)])
def test_what_does_not_fit_is_refused(shard: int, row: int) -> None:
    with pytest.raises(OverflowError, match="do not fit"):
        row_id(shard, row)


@given(any_ids | near_ids)
def test_runs_keep_any_sequence(ids: list[int]) -> None:
    runs = IdRuns.of(as_ids(ids))
    assert runs.ids().tolist() == ids
    assert (len(runs), bool(runs)) == (len(ids), bool(ids))
    assert IdRuns.of_json(runs.as_json()) == runs


@given(any_ids | near_ids, near_ids)
def test_one_sequence_may_follow_another(one: list[int], other: list[int]) -> None:
    parts = [IdRuns.of(as_ids(each)) for each in (one, other, one)]
    assert IdRuns.joined(parts).ids().tolist() == [*one, *other, *one]
    assert IdRuns.joined(parts[:1]) == parts[0]
    assert IdRuns.joined([]) == IdRuns()


@given(near_ids, near_ids)
def test_ids_are_found_among_ordered_ones(some: list[int], ids: list[int]) -> None:
    found = are_in(as_ids(sorted(some)), as_ids(ids))
    assert found.tolist() == [each in some for each in ids]


@pytest.mark.parametrize("ordered", [[3, 4, 5, 6], [3, 3, 5, 6], [3, 4, 5, 9], [], [4]])
def test_ids_are_found_among_those_without_a_gap_and_others(ordered: list[int]) -> None:
    ids = [-(2**63), 2, 3, 4, 5, 6, 7, 9, 2**63 - 1]
    assert are_in(as_ids(ordered), as_ids(ids)).tolist() == [each in ordered for each in ids]


def test_what_a_filter_leaves_takes_a_few_bits_a_row() -> None:
    left = np.flatnonzero(np.random.default_rng(0).random(1 << 20) < 0.5)
    for ids in (left + row_id(3, 0), left << 32):
        runs = IdRuns.of(ids)
        assert (runs.ids() == ids).all()
        assert len(runs.as_json()) < len(ids) / 2


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(1000),
        np.arange(1000) << 32,
        np.full(1000, 7),
        np.arange(1000)[::-1],
    ],
    ids=["rows of one shard", "one-row shards", "children of one row", "backwards"],
)
def test_regular_sequences_are_one_run(ids: np.ndarray) -> None:
    assert len(IdRuns.of(ids.astype(np.int64)).runs) == 1


def test_irregular_sequences_take_no_more_runs_than_ids() -> None:
    ids = np.random.default_rng(0).integers(0, 2**40, 1000)
    assert len(IdRuns.of(ids).runs) <= 1000


@pytest.mark.parametrize("at", [0, 1, IDS_IN_CACHE - 1, IDS_IN_CACHE, IDS_IN_CACHE + 1])
def test_a_step_that_differs_is_seen_wherever_it_is(at: int) -> None:
    """Another one makes up for it, so that the last id is where it would be."""
    steps = np.ones(3 * IDS_IN_CACHE, dtype=np.int64)
    steps[[at, at + IDS_IN_CACHE]] = [2, 0]
    ids = np.concatenate([[7], 7 + np.cumsum(steps)])
    assert ids[-1] == 7 + len(steps)
    found = IdRuns.of(ids)
    assert len(found.runs) > 1 or found.packed
    assert (found.ids() == ids).all()
    assert IdRuns.of(np.arange(len(ids))).runs == ((0, len(ids), 1),)
