"""How far a value is from what it was."""

import math
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.kinds.tensors import tensor_array
from tasks.verifying.comparing import (
    Compared,
    Keys,
    Outcomes,
    Rows,
    by_id,
    compare,
    distance_between,
    without_superseded,
)

FAR = math.inf


@pytest.mark.parametrize(
    ("was", "now", "distance"),
    [
        (1.0, 1.0, 0),
        (0.5, 0.25, 0.25),
        (200.0, 201.0, 0.005),
        (-200.0, -201.0, 0.005),
        (math.nan, math.nan, 0),
        (math.nan, 1.0, FAR),
        (1.0, math.nan, FAR),
        (FAR, FAR, 0),
        (FAR, 1.0, FAR),
        (FAR, -FAR, FAR),
        (None, None, 0),
        (None, 0.0, FAR),
        (0.0, None, FAR),
        (7, 7, 0),
        (7, 8, FAR),
        (7, 7.0, 0),
        ("cat", "cat", 0),
        ("cat", "dog", FAR),
        (b"a", b"b", FAR),
        (True, False, FAR),
        (datetime(2026, 1, 1), datetime(2026, 1, 2), FAR),
        ([], [], 0),
        ([0.0, 1.0], [0.0, 1.5], 0.5),
        ([0.0, 1.0], [0.0], FAR),
        ([[0.0], [1.0]], [[0.25], [1.0]], 0.25),
        ({"label": "cat", "score": 0.5}, {"label": "cat", "score": 0.25}, 0.25),
        ({"label": "cat", "score": 0.5}, {"label": "dog", "score": 0.5}, FAR),
        ({"label": "cat"}, {"name": "cat"}, FAR),
        ([{"score": 0.0}], None, FAR),
        ([("k", math.nan), ("j", 1.0)], [("k", math.nan), ("j", 1.5)], 0.5),
        (np.array([[0.0, 1.0]], np.float32), np.array([[0.0, 1.5]], np.float32), 0.5),
        (np.array([200.0], np.float32), np.array([201.0], np.float32), 0.005),
        (np.array([math.nan, FAR], np.float32), np.array([math.nan, FAR], np.float32), 0),
        (np.array([math.nan], np.float32), np.array([1.0], np.float32), FAR),
        (np.array([FAR], np.float32), np.array([1.0], np.float32), FAR),
        (np.array([[0.0, 1.0]], np.float32), np.array([[0.0], [1.0]], np.float32), FAR),
        (np.array([1.0], np.float32), np.array([1.0], np.float64), FAR),
        (np.array([], np.float32), np.array([], np.float32), 0),
        (np.array([1, 2], np.uint8), np.array([1, 2], np.uint8), 0),
        (np.array([1, 2], np.uint8), np.array([1, 3], np.uint8), FAR),
        (np.array([1.0], np.float32), None, FAR),
        (None, np.array([1.0], np.float32), FAR),
    ],
)
def test_only_floats_may_be_a_little_off(was: Any, now: Any, distance: float) -> None:
    assert distance_between(was, now) == pytest.approx(distance)


def outcomes(rows: Rows, *aside: int) -> Outcomes:
    return Outcomes(rows, frozenset(aside))


def compared(was: Rows, now: Rows, tolerance: float = 0, **more: Any) -> Compared:
    return compare([1, 2], outcomes(was), outcomes(now), [], tolerance, **more)


def test_rows_are_matched_by_id_and_their_children_by_place() -> None:
    was = {1: [{"x": 1.0}, {"x": 2.0}], 2: [{"x": 3.0}]}
    assert compared(was, was).differences == []
    turned = compared(was, {**was, 1: was[1][::-1]})
    assert (turned.rows, turned.rows_that_differ) == (2, {1})


def test_children_in_folders_have_no_order_beyond_their_folder() -> None:
    """How files follow each other depends on how batches were cut."""
    was = {1: [{"part": "a", "x": 1.0}, {"part": "b", "x": 2.0}, {"part": "b", "x": 3.0}]}
    now = {1: [was[1][1], was[1][2], was[1][0]]}
    assert compare([1], outcomes(was), outcomes(now), ["part"], 0).differences == []
    now = {1: [was[1][2], was[1][1], was[1][0]]}
    assert compare([1], outcomes(was), outcomes(now), ["part"], 0).rows_that_differ == {1}


def test_what_becomes_of_a_row_as_a_whole_is_compared() -> None:
    """Written, how often, filtered or set aside; and nothing else comes out."""
    was = outcomes({1: [{"x": 1.0}], 2: [{"x": 1.0}, {"x": 1.0}]}, 3)
    same = compare(range(1, 5), was, was, [], 0)
    assert (same.rows, same.differences) == (4, [])
    now = outcomes({2: [{"x": 1.0}], 4: [{"x": 1.0}], 9: [{"x": 1.0}]}, 1)
    found = compare(range(1, 5), was, now, [], 0).differences
    assert [(each.row, each.column, each.was, each.now) for each in found] == [
        (1, None, "1 row", "set aside"),
        (2, None, "2 rows", "1 row"),
        (3, None, "set aside", "0 rows"),
        (4, None, "0 rows", "1 row"),
        (9, None, "0 rows", "1 row"),
    ]


def test_rows_whose_key_is_published_of_another_row_are_not_missed() -> None:
    was = {1: [{"key": "b", "x": 2.0}]}
    now = {1: [{"key": "a", "x": 1.0}, {"key": "b", "x": 2.0}], 2: [{"key": "c", "x": 0.0}]}
    asked = list[Any]()

    def are_published(keys: Keys) -> list[bool]:
        asked.extend(keys)
        return [key == ("a",) for key in keys]

    left = without_superseded(was, now, ["key"], are_published)
    assert sorted(asked) == [("a",), ("c",)]
    assert left == {1: was[1], 2: now[2]}, "c is nobody's, and a difference"


def test_how_far_floats_are_off_is_told_also_where_it_is_let_through() -> None:
    was = {1: [{"x": 1.0, "name": "a"}], 2: [{"x": 0.0, "name": "b"}]}
    now = {1: [{"x": 1.25, "name": "a"}], 2: [{"x": 0.0, "name": "c"}]}
    found = compared(was, now, 0.5)
    assert found.largest == {"x": 0.25}
    assert [each.column for each in found.differences] == ["name"]


def test_small_floats_are_compared_with_the_largest_of_their_column() -> None:
    """A model that gives a constant is another one, however small its numbers are."""
    was = {row: [{"p": row * 1e-9, "v": [row * 1e-9, 5.0]}] for row in range(1, 10)}
    now = {row: [{"p": 5e-9, "v": [row * 1e-9 + 1e-6, 5.0]}] for row in range(1, 10)}
    found = compare(range(1, 10), outcomes(was), outcomes(now), [], 1e-4)
    assert len(found.rows_that_differ) == 8
    assert {each.column for each in found.differences} == {"p"}
    assert found.largest["v"] == pytest.approx(1e-6)


def test_arrays_of_differing_shapes_are_compared_by_their_numbers() -> None:
    """As by those of a column: their bytes tell not how far they are off."""

    def outcome(*factors: float) -> Outcomes:
        maps = [np.full((row, 2), row * 1e-3 * by, np.float32) for row, by in enumerate(factors, 1)]
        rows = pa.table({"row": [1, 2, 3], "map": tensor_array([*maps, None])})
        return Outcomes(by_id([rows], "row"), frozenset())

    was = outcome(1, 1)
    nearly = compare([1, 2, 3], was, outcome(1, 1 + 1e-6), [], 1e-4)
    assert (nearly.rows, nearly.differences) == (3, [])
    assert 0 < nearly.largest["map"] < 1e-5
    assert compare([1, 2, 3], was, outcome(1, 1.01), [], 1e-4).rows_that_differ == {2}


def test_no_tolerance_takes_one_word_for_another() -> None:
    assert compared({1: [{"x": "a"}]}, {1: [{"x": "b"}]}, 1e300).rows_that_differ == {1}
