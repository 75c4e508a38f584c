"""Sets of ids as ranges, compared with Python's sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.protocol.ids import MAX_ROWS, ROW_BITS, IdRuns, as_ids, row_id, shard_of
from tasks.protocol.ranges import IdRanges, Spans, late

pytestmark = pytest.mark.usefixtures("either_encoding")
SHARDS = (0, 1, 5)
# The last row that a shard can have is next to the first of the shard that follows.
ROWS = (0, 1, 2, 3, 4, 5, MAX_ROWS - 2, MAX_ROWS - 1)
ids = st.builds(row_id, st.sampled_from(SHARDS), st.sampled_from(ROWS))
some = st.lists(ids, max_size=12)


def runs(values: list[int]) -> IdRuns:
    return IdRuns.of(as_ids(values))


def ranges(*several: list[int]) -> IdRanges:
    return IdRanges.of((runs(each),) for each in several)


def check(found: IdRanges, wanted: set[int]) -> None:
    assert found.ids().tolist() == sorted(wanted)
    assert len(found) == len(wanted)
    assert (found.starts < found.stops).all()
    assert (shard_of(found.starts) == shard_of(found.stops - 1)).all()
    touches = found.starts[1:] == found.stops[:-1]
    assert (shard_of(found.starts[1:]) != shard_of(found.starts[:-1]))[touches].all()


@given(some, some)
def test_ranges_are_sets(one: list[int], other: list[int]) -> None:
    check(ranges(one, other), {*one, *other})
    check(ranges(one) | ranges(other), {*one, *other})
    check(ranges(one) - ranges(other), {*one} - {*other})
    check(ranges(one).in_shards(as_ids([1, 5])), {row for row in one if row >> ROW_BITS in (1, 5)})


@given(some, some)
def test_rank_counts_the_smaller_ones(held: list[int], asked: list[int]) -> None:
    wanted = [sum(row < each for row in {*held}) for each in asked]
    assert ranges(held).rank(as_ids(asked)).tolist() == wanted
    in_shards = [sum(row >> ROW_BITS == shard for row in {*held}) for shard in SHARDS]
    assert ranges(held).count_in(as_ids(SHARDS)).tolist() == in_shards


@given(some, some)
def test_which_ids_are_in_a_set(held: list[int], asked: list[int]) -> None:
    assert ranges(held).has(as_ids(asked)).tolist() == [each in held for each in asked]


@given(st.lists(some, max_size=6))
def test_who_repeats_a_row_of_somebody_who_counts_is_late(owners: list[list[int]]) -> None:
    seen: set[int] = set()
    wanted = set()
    for at, own in enumerate(owners):
        if seen & {*own} or len({*own}) < len(own):
            wanted.add(at)
        else:
            seen |= {*own}
    assert late(Spans.of((runs(own),) for own in owners).shared()) == wanted


@pytest.mark.parametrize("step", [1, 1 << ROW_BITS, 0, -1, 7])
def test_runs_of_any_step_are_the_rows_that_they_name(step: int) -> None:
    run = IdRuns(((row_id(9, 50), 4, step),))
    check(IdRanges.of([(run,)]), set(run.ids().tolist()))


def test_no_range_reaches_beyond_its_shard_whatever_gaps_there_are() -> None:
    last = row_id(0, MAX_ROWS - 1)
    rows = [row_id(0, 3), row_id(0, 7), last - 1, last, last + 1, last + 2, row_id(1, 9)]
    check(ranges(rows), {*rows})
    assert len(ranges(rows).starts) == 5


def test_a_billion_consecutive_rows_are_one_range() -> None:
    records = [(IdRuns(((at, 10**6, 1),)),) for at in range(0, 10**9, 10**6)]
    found = IdRanges.of(records)
    assert (found.starts.tolist(), found.stops.tolist()) == ([0], [10**9])
    assert not len((found - IdRanges(as_ids([0]), as_ids([10**9]))).starts)
    assert found.rank(np.array([5, 10**10])).tolist() == [5, 10**9]
