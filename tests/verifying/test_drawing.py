"""Which rows of the published inputs are predicted again."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.protocol.layout import OutputFolder
from tasks.protocol.storage import open_storage
from tasks.verifying.drawing import PLACES, PublishedShards, spread


def chosen(sizes: list[int], rows: int) -> list[int]:
    """Rows, numbered through all shards."""
    ends = np.cumsum([0, *sizes])
    taken = spread(len(sizes), rows, sizes.__getitem__)
    found = [int(ends[at]) + row for at, ranges in taken.items() for each in ranges for row in each]
    assert all(0 <= each.start <= each.stop <= sizes[at] for at in taken for each in taken[at])
    return sorted(found)


@pytest.mark.parametrize("sizes", [[100] * 10, [1000], [500, 500], [1] * 1000, [990, *[1] * 10]])
def test_rows_are_of_places_from_the_first_row_to_the_last(sizes: list[int]) -> None:
    rows = chosen(sizes, 64)
    starts = [row for row in rows if row - 1 not in rows]
    assert (len(rows), rows[0], rows[-1]) == (64, 0, 999)
    assert len(starts) >= min(PLACES, len(sizes) if len(sizes) > 1 else PLACES) - 6
    if sizes[0] != 990:
        assert len(starts) >= PLACES - 1, "the end of a shard and the next one's beginning meet"
        assert np.diff(starts).min() > 80


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (3, 3), (7, 7), (25, 25), (26, 25), (99, 25)])
def test_so_many_as_there_are_at_most(rows: int, count: int) -> None:
    assert len(chosen([5, 0, 15, 5], rows)) == count


def test_of_nothing_nothing_is_chosen() -> None:
    assert spread(0, 64, [].__getitem__) == {}
    assert chosen([0], 64) == []


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(1, 400))
def test_no_row_is_chosen_twice_or_missed(sizes: list[int], rows: int) -> None:
    found = chosen(sizes, rows)
    assert len(found) == len(set(found)) == min(rows, sum(sizes))


def test_of_millions_of_shards_few_are_looked_at() -> None:
    looked = list[int]()

    def length(at: int) -> int:
        looked.append(at)
        return 1

    assert len(spread(10_000_000, 64, length)) == 64
    assert len(looked) <= 80


def test_what_is_gone_holds_no_more_rows(tmp_path: Path) -> None:
    storage, path = open_storage(str(tmp_path / "out"))
    line = {"path": ["/a"], "identity": ["x"], "run_id": ["run"], "shard": [0]}
    seen: Any = SimpleNamespace(
        inputs=pa.table(line), entries={1: {"run_id": "run", "plan": "0000-a.parquet"}}
    )
    assert not PublishedShards(storage, OutputFolder(path), seen).has_more_than(0)
