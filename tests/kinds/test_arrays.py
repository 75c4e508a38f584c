"""Columns as a model's arrays: what does not fit is said by column, of the spec or of a row."""

import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tasks.errors import InvalidSpec
from tasks.kinds.columns import column_to_numpy
from tasks.kinds.models.arrays import ROWS_IN_CACHE, best_of, label_columns, matrix, stacked


@pytest.mark.parametrize(
    ("values", "holds"),
    [
        (["a", "b"], "string"),
        ([["a"], ["b"]], "string"),
        ([[[b"a"]], None], "binary"),
        ([{"x": 1}, None], "struct<x: int64>"),
    ],
)
def test_a_column_without_numbers_is_the_specs_fault(values: list[Any], holds: str) -> None:
    with pytest.raises(InvalidSpec, match=f"model.column: 'c' is {holds}, not numbers"):
        stacked(pa.table({"c": values}), "c")


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([[1.0, None]], "'c' is empty in this row, or a part of it is"),
        ([[[1.0], [None]]], "'c' is empty in this row, or a part of it is"),
        ([None], "'c' is empty in this row"),
        ([[1.0], [1.0, 2.0]], "'c' has values of different shapes"),
    ],
)
def test_a_row_without_numbers_is_the_rows_fault(values: list[Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        stacked(pa.table({"c": values}), "c")


def test_a_number_that_the_model_does_not_take_is_told_with_its_column() -> None:
    rows = pa.table({"a": [1, 2], "b": [1.0, 2.5]})
    with pytest.raises(
        ValueError, match=r"column 'b' has a value that is not int64, .*2\.5.*; convert it"
    ):
        matrix(rows, ["a", "b"], missing=False, dtype=np.int64)
    assert matrix(rows, ["a", "b"], missing=False).tolist() == [[1, 1], [2, 2.5]]


NUMBERS = [
    *(pa.bool_(), pa.uint8(), pa.int64(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.decimal32(5, 2), pa.decimal64(9, 2), pa.decimal128(9, 2), pa.decimal256(50, 2)),
]


@pytest.mark.parametrize("wanted", ["bool", "int8", "int64", "uint64", "float16", "float32"])
@pytest.mark.parametrize("kind", NUMBERS, ids=str)
def test_every_type_of_numbers_becomes_what_a_model_takes(kind: pa.DataType, wanted: str) -> None:
    """Arrow has no way from some to others: all rows were set aside, as of a model in float16."""
    rows = pa.table({"c": pa.array([1.0, 0.0]).cast(kind)})
    found = matrix(rows, ["c"], missing=False, dtype=np.dtype(wanted))
    assert found.dtype == wanted
    assert found.tolist() == [[1], [0]]


def test_long_matrices_are_filled_to_the_last_row() -> None:
    count = 2 * ROWS_IN_CACHE + 3
    x, y = np.arange(count), np.random.default_rng(0).standard_normal(count)
    chunks = pa.chunked_array([y[:5], y[5:ROWS_IN_CACHE], y[ROWS_IN_CACHE:]])
    made = matrix(pa.table({"x": x, "y": chunks}), ["y", "x"], missing=False, dtype=np.float64)
    assert (made == np.stack([y, x], axis=1)).all()


@pytest.mark.parametrize("bad", [[np.nan, np.nan], [0.5, np.nan], [np.inf, 0.5], [-np.inf] * 2])
def test_scores_that_are_no_numbers_are_no_label(bad: list[float]) -> None:
    scores = np.array([[0.25, 0.75], bad], np.float32)
    message = "no numbers for this row: float16 may .* set resources.dtype to bfloat16 or float32"
    with pytest.raises(ValueError, match=message):
        label_columns(scores, ["a", "b"])
    assert label_columns(scores[:1], ["a", "b"])["predicted_label"].to_pylist() == ["b"]


SCORES = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, max_side=12),
    elements=st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0]),
)


@given(SCORES, st.integers(1, 13))
def test_the_best_are_those_that_sorting_puts_first(scores: np.ndarray, count: int) -> None:
    wanted = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    assert best_of(scores, count).tolist() == wanted.tolist()


def test_lists_of_one_length_become_an_array_where_they_lie() -> None:
    values = pa.array(np.arange(24, dtype=np.uint8))
    column = pa.chunked_array([pa.FixedSizeListArray.from_arrays(values, 4)])
    found = column_to_numpy(column)
    assert np.shares_memory(found, values.to_numpy())
    assert not found.flags.writeable
    part, two = column.slice(2, 3), pa.chunked_array([*column.chunks, *column.chunks])
    assert column_to_numpy(part).tolist() == found[2:5].tolist()
    assert column_to_numpy(two.slice(4, 4)).tolist() == found[[4, 5, 0, 1]].tolist()


@pytest.mark.parametrize("number", ["uint8", "uint64", "int16", "float32"])
def test_numbers_in_lists_are_of_the_columns_type_whatever_other_rows_lack(number: str) -> None:
    flat, nested = (
        pa.list_(pa.type_for_alias(number)),
        pa.list_(pa.list_(pa.type_for_alias(number))),
    )
    values = [0.5, 1.0] if number == "float32" else [int(np.iinfo(number).max), 1]
    lists = pa.chunked_array([pa.array([values, None, []], flat)])
    first, missing, last = column_to_numpy(lists)
    assert first.dtype == last.dtype == number
    assert first.tolist() == values
    assert missing is None
    deep = column_to_numpy(pa.chunked_array([pa.array([[values, values]], nested)]))
    assert deep.dtype == number
    assert deep.tolist() == [[values, values]]
    ragged = column_to_numpy(pa.chunked_array([pa.array([[values, []]], nested)]))
    assert [each.dtype for each in ragged[0]] == [number, number]


def test_lists_beside_missing_ones_become_arrays_where_they_lie() -> None:
    values = pa.array(np.arange(6, dtype=np.float32))
    lists = pa.ListArray.from_arrays([0, 2, 6], values, mask=pa.array([False, True]))
    first, missing = column_to_numpy(pa.chunked_array([lists]))
    assert np.shares_memory(first, values.to_numpy())
    assert (first.tolist(), missing) == ([0, 1], None)


def test_a_list_that_lacks_a_number_keeps_all_digits_of_the_others() -> None:
    lists = pa.chunked_array([pa.array([[2**60 + 1, None]], pa.list_(pa.int64()))])
    assert column_to_numpy(lists)[0].tolist() == [2**60 + 1, None]


def test_a_hopeless_label_may_score_the_logarithm_of_nothing() -> None:
    found = label_columns(np.array([[0.0, -np.inf]], np.float32), ["a", "b"], top_k=2)
    assert found["predicted_label"].to_pylist() == [["a", "b"]]


@pytest.mark.parametrize(
    "kind",
    [
        pa.decimal128(5, 2),
        pa.list_(pa.decimal128(5, 2)),
        pa.list_(pa.decimal128(5, 2), 2),
        pa.large_list(pa.decimal256(5, 2)),
    ],
    ids=str,
)
def test_decimals_are_numbers(kind: pa.DataType) -> None:
    numbers = [Decimal("1.25"), Decimal("2.50")]
    values = numbers if pa.types.is_decimal(kind) else [numbers, numbers]
    found = stacked(pa.table({"c": pa.array(values, kind)}), "c")
    assert found.dtype == np.float64
    assert found.tolist() == ([1.25, 2.5] if found.ndim == 1 else [[1.25, 2.5]] * 2)


def test_no_threads_are_begun_for_a_frame_of_a_few_rows() -> None:
    """They took as long as the frame, which the search for a guilty row makes again and again."""
    code = (
        "import psutil, pyarrow as pa; from tasks.kinds.columns import FEW_ROWS, to_pandas; "
        "count = psutil.Process().num_threads; "
        "few, more = (pa.table({c: range(n) for c in 'abcd'}) for n in (8, FEW_ROWS + 1)); "
        "to_pandas(few); before = count(); to_pandas(few); print(count() - before, end=' '); "
        "before = count(); to_pandas(more); print(count() - before > 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "True"]
