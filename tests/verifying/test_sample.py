"""Which of the published rows are compared."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.protocol.ids import IdRuns
from tasks.protocol.ledger_lines import LedgerFile
from tasks.verifying.sample import PLACES, spread


def files_of(*sizes: int) -> list[LedgerFile]:
    """Files whose rows are numbered through, each of a run of its own."""
    ends = np.cumsum(sizes)
    return [
        LedgerFile(f"{at}", "", f"run-{at:03d}", 0, IdRuns.of(np.arange(end - size, end)))
        for at, (size, end) in enumerate(zip(sizes, ends, strict=True))
    ]


def chosen(files: list[LedgerFile], rows: int) -> list[int]:
    found = spread(files, rows)
    return sorted(int(each) for ids in found.values() for each in ids)


def test_rows_are_of_eight_places_from_the_first_row_to_the_last() -> None:
    rows = chosen(files_of(*[100] * 10), 64)
    starts = [row for row in rows if row - 1 not in rows]
    assert (len(rows), len(starts)) == (64, PLACES)
    assert (rows[0], rows[-1]) == (0, 999)
    assert np.diff(starts).min() > 100


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (3, 3), (7, 7), (25, 25), (26, 25), (99, 25)])
def test_so_many_as_there_are_at_most(rows: int, count: int) -> None:
    assert len(chosen(files_of(5, 0, 15, 5), rows)) == count


def test_of_nothing_nothing_is_chosen() -> None:
    assert spread([], 64) == {}
    assert spread(files_of(0), 64) == {}


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 200))
def test_no_row_is_chosen_twice_or_missed(sizes: list[int], rows: int) -> None:
    found = chosen(files_of(*sizes), rows)
    total = sum(sizes)
    assert len(found) == len(set(found)) == min(rows, total)
    assert not found or (found[0] == 0 and (rows < 2 or found[-1] == total - 1))


def test_a_row_that_became_several_is_chosen_once() -> None:
    file = LedgerFile("0", "", "run", 0, IdRuns.of(np.repeat(np.arange(10), 3)))
    assert chosen([file], 1000) == list(range(10))
