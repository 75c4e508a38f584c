"""How far a value is from what it was."""

import math
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from tasks.verifying.comparing import compare, distance_between

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
    ],
)
def test_only_floats_may_be_a_little_off(was: Any, now: Any, distance: float) -> None:
    assert distance_between(was, now) == pytest.approx(distance)


def table(ids: list[int], **columns: list[Any]) -> pa.Table:
    return pa.table({**columns, "id": ids})


def test_rows_are_matched_by_id_and_their_children_by_place() -> None:
    was = table([1, 1, 2], x=[1.0, 2.0, 3.0])
    same = table([2, 1, 1, 9], x=[3.0, 1.0, 2.0, 0.0])
    assert compare(was, same, "id", [], 0).differences == []
    turned = compare(was, table([1, 1, 2], x=[2.0, 1.0, 3.0]), "id", [], 0)
    assert (turned.rows, turned.rows_that_differ) == (2, {1})


def test_a_row_that_became_more_or_fewer_differs_as_a_whole() -> None:
    was = table([1, 1, 2], x=[1.0, 2.0, 3.0])
    found = compare(was, table([1, 2, 2], x=[1.0, 3.0, 3.0]), "id", [], 1.0)
    assert [(each.row, each.column, each.was, each.now) for each in found.differences] == [
        (1, None, 2, 1),
        (2, None, 1, 2),
    ]
    assert compare(was, None, "id", [], 1.0).rows_that_differ == {1, 2}


def test_children_whose_key_has_newer_rows_are_not_missed() -> None:
    was = table([1], key=["b"], x=[2.0])
    now = table([1, 1], key=["a", "b"], x=[1.0, 2.0])
    assert compare(was, now, "id", ["key"], 0).differences == []
    assert compare(was, now, "id", [], 0).rows_that_differ == {1}
    lost = table([1, 1], key=["a", "c"], x=[1.0, 2.0])
    assert compare(was, lost, "id", ["key"], 0).rows_that_differ == {1}


def test_how_far_floats_are_off_is_told_also_where_it_is_let_through() -> None:
    was = table([1, 2], x=[1.0, 0.0], name=["a", "b"])
    found = compare(was, table([1, 2], x=[1.25, 0.0], name=["a", "c"]), "id", [], 0.5)
    assert found.largest == {"x": 0.25}
    assert [each.column for each in found.differences] == ["name"]
