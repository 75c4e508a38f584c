"""Many objects as columns, compared with Python's lists and sets."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.protocol import columns
from tasks.protocol.object_stat import Stat
from tasks.protocol.stat_columns import Stats

paths = st.text("ab/é", min_size=1, max_size=3)
stats = st.builds(Stat, paths, st.integers(0, 9), st.sampled_from("xyz"))
lists = st.lists(stats, max_size=9, unique_by=lambda stat: stat.path)


@pytest.fixture(autouse=True, scope="module")
def few_at_a_time() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "OBJECTS_AT_A_TIME", 4)
        yield


@given(lists)
def test_they_come_back_in_their_order(several: list[Stat]) -> None:
    held = Stats.of(several)
    assert list(held) == several
    assert [held[at] for at in range(-len(several), len(several))] == several * 2
    assert list(held[2:5]) == several[2:5]


@given(st.lists(lists, max_size=3))
def test_each_path_is_there_once_and_in_order(several: list[list[Stat]]) -> None:
    found = Stats.by_path(map(Stats.of, several))
    everything = [stat for some in several for stat in some]
    assert [stat.path for stat in found] == sorted({stat.path for stat in everything})
    assert {*found} <= {*everything}


@given(lists, lists)
def test_what_is_published_as_it_is_is_left_out(now: list[Stat], then: list[Stat]) -> None:
    table = Stats.of([*then, *then]).table  # several shards of one input
    published = pa.table({name: table[name] for name in ("path", "identity")})
    known = {(stat.path, stat.identity) for stat in then}
    left = Stats.of(now).without(published)
    assert list(left) == [stat for stat in now if (stat.path, stat.identity) not in known]


def test_what_is_beyond_the_last_is_refused() -> None:
    with pytest.raises(IndexError):
        Stats.of(())[0]
