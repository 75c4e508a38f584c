"""The user's own functions over one row at a time."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flows.testing import RunSpec
from tasks.errors import UserCodeBroke
from tasks.kinds import column_types
from tasks.kinds.columns import column_to_numpy
from tasks.kinds.row_functions import Row
from tasks.kinds.steps import MapStep
from tasks.protocol.batch import ROW
from tests.kinds.steps.test_steps import images
from tests.ray_job.test_user_columns import COLUMNS, ROWS

Function = Callable[[pa.Table], pa.Table]


def same(row: Row) -> Row:
    return row


def labelled(row: Row) -> Row:
    """As Ray's guide does it."""
    row["class"] = row["path"].rsplit("/", 2)[-2]
    return row


def kinds(row: Row) -> Row:
    return {"kind": type(row["v"]).__name__}


def brightness(row: Row) -> Row:
    return row | {"brightness": row["image"].mean(), "shape": row["image"].shape}


def changed(row: Row) -> Row:
    """Of the column v the next larger value."""
    larger = {int: 1, float: 0.5, str: "z"}
    return {**row, "v": row["v"] and row["v"] + larger[type(row["v"])]}


def darker(row: Row) -> Row:
    row["image"] -= 1
    return row


def sorts(row: Row) -> Row:
    row["v"].sort()
    return row


def nothing(row: Row) -> None:
    return None


def now_and_then(row: Row) -> Row:
    return row if row["x"] > 10 else {**row, "small": True}


def ours(row: Row) -> Row:
    return {**row, "__mine": 1}


def misspelt(row: Row) -> Row:
    return {"y": row["z"]}


def inverse(row: Row) -> Row:
    return {**row, "y": 1 / row["x"]}


class Times:
    """Multiplies."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, row: Row) -> Row:
        return {**row, "y": row["x"] * self.factor}


class Halves:
    """Predicts half of x."""

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"half": batch["x"] / 2}


def pages(row: Row) -> list[Row]:
    return [{**row, "page": page} for page in range(row["x"] // 10 - 1)]


def yielded(row: Row) -> Iterator[Row]:
    yield from pages(row)


def no_pages(row: Row) -> list[Row]:
    return []


def in_a_list(row: Row) -> list[Any]:
    return [row["x"]]


def mapped(function: str, **init: Any) -> Function:
    """A step with a function of this file."""
    return MapStep(function=f"{__name__}:{function}", init=init).build()


def flat_mapped(function: str) -> Function:
    """One that makes several rows of one."""
    return MapStep(function=f"{__name__}:{function}", returns_list=True).build()


def test_a_function_gets_rows_and_returns_rows() -> None:
    rows = pa.table({ROW: ROWS[ROW], "path": ["a/cat/1", "a/dog/2", "b/cat/3"]})
    assert mapped("labelled")(rows).to_pydict() == {
        **rows.to_pydict(), "class": ["cat", "dog", "cat"],
    }  # fmt: skip


def test_so_does_a_class() -> None:
    returned = mapped("Times", factor=3)(ROWS)
    assert returned.to_pydict() == {**ROWS.to_pydict(), "y": [30, 60, 90]}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize(("function", "order"), [("same", [0, 1, 2]), ("pages", [1, 2, 2])])
def test_columns_that_are_left_alone_lose_nothing_of_their_type(
    name: str, function: str, order: list[int]
) -> None:
    rows = pa.table({ROW: ROWS[ROW], "x": ROWS["x"], "v": COLUMNS[name]})
    returned = (mapped if function == "same" else flat_mapped)(function)(rows)
    assert returned[ROW].to_pylist() == [each + 1 for each in order]
    assert returned["v"].type == rows["v"].type
    assert repr(returned["v"].to_pylist()) == repr(rows["v"].take(order).to_pylist())


@pytest.mark.parametrize(
    ("values", "kind", "type_after"),
    [
        ([1, None], pa.int8(), pa.int8()),
        ([1, 127], pa.int8(), pa.int64()),
        ([1.5, None], pa.float32(), pa.float32()),
        ([1.1, None], pa.float64(), pa.float64()),
        (["a", None], pa.large_string(), pa.large_string()),
        (["a", None], pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int8(), pa.string())),
    ],
)
def test_changed_columns_keep_a_type_that_holds_their_values(
    values: list[Any], kind: pa.DataType, type_after: pa.DataType
) -> None:
    """Else batches in which some value was changed would differ from those in which none was."""
    rows = pa.table({ROW: ROWS[ROW][:2], "v": pa.array(values, kind)})
    assert mapped("changed")(rows)["v"].type == type_after


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1, None], "int"), ([1.5, None], "float"), (["a", None], "str"), ([[1], None], "list")],
)
def test_values_are_those_of_python(values: list[Any], kind: str) -> None:
    rows = pa.table({ROW: ROWS[ROW][:2], "v": values})
    assert mapped("kinds")(rows)["kind"].to_pylist() == [kind, "NoneType"]


@pytest.mark.parametrize("sizes", [[4, 4], [4, 5]])
def test_images_are_arrays(sizes: list[int]) -> None:
    rows = images(sizes)
    returned = mapped("brightness")(rows)
    assert returned["brightness"].to_pylist() == [float(size) for size in sizes]
    assert returned["shape"].to_pylist() == [[size, size, 3] for size in sizes]
    # Left alone, they travel on as they came.
    assert returned["image"].equals(rows["image"])
    assert column_types.is_encoded(returned.schema.field("image"), column_types.IMAGE)


def test_images_may_be_written_to() -> None:
    returned = mapped("darker")(images([4, 4]))
    assert not column_types.is_encoded(returned.schema.field("image"), column_types.IMAGE)
    assert (column_to_numpy(returned["image"]) == 3).all()


def test_lists_may_be_written_to() -> None:
    rows = pa.table({ROW: ROWS[ROW][:2], "v": [[3, 1], [2, 1]]})
    assert mapped("sorts")(rows)["v"].to_pylist() == [[1, 3], [1, 2]]
    assert rows["v"].to_pylist() == [[3, 1], [2, 1]]


@pytest.mark.parametrize("function", ["pages", "yielded"])
def test_many_rows_of_one_bear_its_id(function: str) -> None:
    assert flat_mapped(function)(ROWS).to_pydict() == {
        ROW: [2, 3, 3], "x": [20, 30, 30], "page": [0, 0, 1],
    }  # fmt: skip


def test_rows_of_which_none_are_made_are_filtered() -> None:
    assert len(flat_mapped("no_pages")(ROWS)) == 0


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        ("nothing", "it returned NoneType: it must return a dict of the new row's columns for"),
        ("pages", "it returned list: it must return a dict"),
        ("now_and_then", "rows with the column 'small' and rows without it: return each"),
        ("ours", r"it returned the columns \['__mine'\]: names with __ are reserved"),
    ],
)
def test_what_is_no_row_is_told(function: str, problem: str) -> None:
    with pytest.raises(UserCodeBroke, match=problem):
        mapped(function)(ROWS)


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        ("nothing", "it returned NoneType: it must return a list of dicts for each"),
        ("same", "it returned dict: it must return a list of dicts"),
        ("in_a_list", "it returned a list with int: it must return a list of dicts"),
    ],
)
def test_what_is_no_list_of_rows_is_told(function: str, problem: str) -> None:
    with pytest.raises(UserCodeBroke, match=problem):
        flat_mapped(function)(ROWS)


def test_a_column_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(KeyError, match=r"'z'; the row has the columns x"):
        mapped("misspelt")(ROWS)


def test_arrays_come_back_as_arrays() -> None:
    rows = images([4, 4])
    once = mapped("darker")(rows)
    again = mapped("same")(once)
    assert again["image"].type == once["image"].type
    assert np.array_equal(column_to_numpy(again["image"]), column_to_numpy(once["image"]))


@pytest.mark.prefect
def test_a_row_that_breaks_it_is_set_aside_alone(run_spec: RunSpec, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("x\n10\n20\n0\n30\n")
    done = run_spec(
        {
            "source": {"kind": "csv", "path": str(tmp_path / "in.csv")},
            "steps": [
                {"kind": "map", "function": f"{__name__}:inverse"},
                {"kind": "map", "function": f"{__name__}:pages", "returns_list": True},
            ],
            "model": {"kind": "python", "class": f"{__name__}:Halves"},
            "sink": {"kind": "parquet", "path": str(tmp_path / "out")},
            "errors": {"max_rejected_fraction": 1.0},
        }
    )
    assert done.table.select(["x", "page", "half"]).to_pydict() == {
        "x": [20, 30, 30], "page": [0, 0, 1], "half": [10.0, 15.0, 15.0],
    }  # fmt: skip
    (aside,) = done.set_aside
    assert (aside["row"], aside["error_type"]) == (2, "ZeroDivisionError")
    assert done.report["rows"] == {"read": 4, "written": 3, "rejected": 1, "filtered": 1}
