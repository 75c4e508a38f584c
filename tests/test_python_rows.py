"""Rows for people, also those of which Python can say nothing."""

import pyarrow as pa

from tasks.python_rows import python_rows


def test_rows_are_as_arrow_has_them() -> None:
    rows = [{"a": 1, "b": [None, "x"]}, {"a": None, "b": None}]
    assert python_rows(pa.Table.from_pylist(rows)) == rows
    assert python_rows(pa.table({})) == []


def test_a_time_that_python_does_not_know_is_told() -> None:
    at = pa.array([300_000_000_000_000_000, None, 0], pa.timestamp("us"))
    found = python_rows(pa.table({"at": at, "n": [1, 2, 3]}))
    assert [row["n"] for row in found] == [1, 2, 3]
    assert found[0]["at"] == "300000000000000000 as timestamp[us]"
    assert found[1]["at"] is None
    assert found[2]["at"].year == 1970


def test_a_time_in_a_place_that_nobody_knows_is_told() -> None:
    at = pa.array([7, None], pa.timestamp("us", "Nowhere/Here"))
    told = "7 as timestamp[us, tz=Nowhere/Here]"
    assert python_rows(pa.table({"at": at})) == [{"at": told}, {"at": None}]
