"""How many rows a stage takes at a time."""

import pytest

from tasks.ray_job.adaptive_batching import Pace


def test_the_pace_follows_the_model() -> None:
    pace = Pace()
    found = []
    for seconds in (2.9, 11.9, 23.8, 29.0, 31.0):
        pace.follow(pace.rows, seconds)
        found.append(pace.rows)
    assert found == [512, 1_024, 1_024, 1_024, 256]


@pytest.mark.parametrize(
    ("seconds", "rows"), [(0.0, 512), (-600.0, 512), (3.1, 256), (6.1, 128), (12.1, 64)]
)
def test_a_call_gets_no_more_rows_than_take_24_seconds(seconds: float, rows: int) -> None:
    """It may have taken no time, or less by what is put down to warming up."""
    pace = Pace(64)
    pace.follow(64, seconds)
    assert pace.rows == rows


def test_a_call_of_fewer_rows_says_what_these_took() -> None:
    pace = Pace(64)
    pace.follow(33, 2.9)
    assert pace.rows == 33 * 8
    assert pace.next_seconds == pytest.approx(8 * 2.9)
    pace.follow(3, 0.1)
    assert pace.rows == 33 * 8, "a few rows that were quick are no reason for fewer"
    pace.follow(100, 31.0)
    assert pace.rows == 25


@pytest.mark.parametrize(("num_columns", "rows"), [(0, 64), (300, 64), (1_000, 256), (3_000, 512)])
def test_a_quick_call_of_many_columns_gets_more_rows(num_columns: int, rows: int) -> None:
    """Most of what it takes is what columns cost, be they of one row."""
    pace = Pace(64, call_seconds=0.05)
    pace.follow(64, 0.1, num_columns=num_columns)
    assert pace.rows == rows


@pytest.mark.parametrize(
    ("size", "rows"), [(65 << 20, 16), (33 << 20, 64), (32 << 20, 128), (9 << 20, 256), (1, 512)]
)
def test_a_call_makes_no_more_bytes_than_64_mib(size: int, rows: int) -> None:
    pace = Pace(64)
    pace.follow(64, 0.1, size)
    assert pace.rows == rows


def test_a_fixed_pace_stays() -> None:
    pace = Pace.fixed(64)
    for seconds in (0.1, 31.0):
        pace.follow(64, seconds)
        assert pace.rows == 64


def test_a_pace_has_bounds() -> None:
    pace = Pace(64, least=32, most=100)
    pace.follow(64, 0.1)
    assert pace.rows == 100
    pace.follow(64, 31.0)
    assert pace.rows == 32
    assert not pace.shrink()
