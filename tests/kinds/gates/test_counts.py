"""Nulls, bounds and rows, against NumPy."""

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.gates.bounds import BoundsGate, BoundsMeter
from tasks.kinds.gates.gate import LastRun, check_columns
from tasks.kinds.gates.rows import RowsGate, RowsMeter
from tasks.kinds.sinks.sink import published_field
from tasks.kinds.tensors import tensor_array
from tasks.publishing.judging import line_of
from tests.kinds.gates.measuring import gate_of, judge

VALUES = st.lists(
    st.none() | st.floats(-9, 9, allow_subnormal=False) | st.just(math.nan), min_size=1, max_size=40
)


@given(values=VALUES, cut=st.integers(1, 20))
def test_nulls(values: list[float | None], cut: int) -> None:
    expected = np.isnan(np.array(values, dtype=float)).mean()
    found = judge(
        gate_of(kind="nulls", column="x", max_fraction=0.25), pa.table({"x": values}), cut
    )
    assert found.value == pytest.approx(expected, abs=1e-6)
    assert found.passed == (expected <= 0.25)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_nan_is_missing_also_where_numbers_stand_for_values(kind: pa.DataType) -> None:
    values = pa.array(np.array([1.5, np.nan, 1.5, 2.5]), kind)
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 2]), values[:3])
    found = [
        judge(gate_of(kind="nulls", column="x", max_fraction=1), pa.table({"x": each}), cut=2)
        for each in (values, coded)
    ]
    assert [each.value for each in found] == [0.25, 0.4]


@given(values=VALUES, cut=st.integers(1, 20), low=st.floats(-9, 0), high=st.floats(0, 9))
def test_bounds(values: list[float | None], cut: int, low: float, high: float) -> None:
    numbers = np.array(values, dtype=float)
    numbers = numbers[~np.isnan(numbers)]
    rows = pa.table({"x": pa.array(values, pa.float64())})
    gate = gate_of(kind="bounds", column="x", minimum=low, maximum=high, max_fraction_outside=0.5)
    found = judge(gate, rows, cut)
    if not len(numbers):
        assert (found.value, found.passed, found.note) == (None, False, "x has no values")
        return
    expected = np.mean((numbers < low) | (numbers > high))
    assert found.value == pytest.approx(expected, abs=1e-6)
    assert found.passed == (expected <= 0.5)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_a_value_at_the_bound_lies_inside(kind: pa.DataType) -> None:
    at_bounds = np.array([0.9, 1.1], kind.to_pandas_dtype())
    gate = gate_of(kind="bounds", column="x", minimum=0.9, maximum=1.1)
    assert judge(gate, pa.table({"x": [at_bounds[:1], at_bounds]})).passed
    infinite = pa.table({"x": pa.array(np.array([np.inf]), kind)})
    assert not judge(gate_of(kind="bounds", column="x", maximum=1e300), infinite).passed


@pytest.mark.parametrize(
    "values",
    [
        [1, 5, None],
        [[1.0, 5.0], [], None],
        pa.array([[1, 5], None], pa.list_(pa.int8(), 2)),
        [Decimal("1.0"), Decimal("5.00")],
        pa.array([1, 5], pa.float16()),
        pa.array([[[1.0]], [[5.0]]]),
        pa.FixedShapeTensorArray.from_numpy_ndarray(np.array([[[1.0]], [[5.0]]], np.float32)),
        tensor_array([np.array([[1, 5]], np.uint8), None, np.zeros((0, 3))]),
    ],
    ids=[
        *("integers", "lists", "fixed lists", "decimals", "halves", "lists of lists"),
        *("arrays of one shape", "arrays"),
    ],
)
def test_bounds_take_numbers_of_every_kind(values: Any) -> None:
    rows = pa.table({"x": values})
    gate = gate_of(kind="bounds", column="x", maximum=4)
    check_columns([gate], rows.schema)
    found = judge(gate, rows, cut=1)
    assert (found.value, found.passed, found.note) == (0.5, False, "values from 1 to 5")
    assert judge(gate_of(kind="bounds", column="x", minimum=1, maximum=5), rows).passed


@pytest.mark.parametrize("dtype", ["datetime64[s]", "complex64"])
def test_arrays_of_what_has_no_bounds_fail_the_gate(dtype: str) -> None:
    rows = pa.table({"x": tensor_array([np.ones((1, 2)), np.zeros((1, 2), dtype)])})
    check_columns([gate := gate_of(kind="bounds", column="x", maximum=4)], rows.schema)
    found = judge(gate, rows, cut=1)
    assert (found.passed, found.note) == (False, "x has values that are not numbers")


@pytest.mark.parametrize("kind", [pa.null(), pa.list_(pa.null())], ids=str)
def test_bounds_take_a_column_of_which_the_first_rows_have_no_value(kind: pa.DataType) -> None:
    """Later ones tell what it holds; where none does, or they tell of text, the gate fails."""
    gate = BoundsGate(column="score", minimum=0)
    schema = pa.schema([published_field(pa.field("score", kind))])
    check_columns([gate], schema)
    with pytest.raises(InvalidSpec, match="not numbers"):
        check_columns([gate], schema.remove_metadata().set(0, schema.field(0).remove_metadata()))
    meter = gate.meter(schema, LastRun())
    meter.add(pa.table([pa.nulls(2, schema.field(0).type)], schema))
    assert meter.judge().note == "score has no values"
    meter.add(pa.table([pa.array(["a"]).cast(pa.string())], ["score"]))
    assert (meter.judge().passed, meter.judge().note) == (
        False,
        "score has values that are not numbers",
    )


def test_what_just_fails_is_seen_to_fail() -> None:
    """Not as `1e+06, at most 1,000,000` or as `0, at most 0`."""
    rows = RowsMeter(RowsGate(maximum=10_000_000), total=10_000_001).judge()
    assert line_of(rows).endswith("rows written: 10,000,001, at most 10,000,000 is required")
    gate = BoundsGate(column="x", maximum=1_000_000)
    found = line_of(BoundsMeter(gate, 1, 5_000_000, 0, 1_000_001).judge())
    assert "x above 1,000,000: 2e-07, at most 0" in found
    assert "values from 0 to 1,000,001" in found


@pytest.mark.parametrize(
    ("limits", "passed"),
    [({"minimum": 9}, True), ({"minimum": 10}, False), ({"minimum": 1, "maximum": 8}, False)],
)
def test_rows(limits: dict[str, int], passed: bool) -> None:
    found = judge(gate_of(kind="rows", **limits), pa.table({"x": range(9)}))
    assert (found.value, found.passed) == (9, passed)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "rows"}, "give minimum, maximum or both"),
        ({"kind": "rows", "minimum": 5, "maximum": 4}, "no number fits"),
        ({"kind": "bounds", "column": "x"}, "give minimum, maximum or both"),
        ({"kind": "bounds", "column": "x", "minimum": 5, "maximum": 4}, "no value fits"),
        ({"kind": "accuracy", "minimum": 90}, "less than or equal to 1"),
        ({"kind": "nulls", "column": "x", "max_fraction": -1}, "greater than or equal to 0"),
        ({"kind": "drift", "column": "x", "metric": "jensen_shannon", "maximum": 1}, "a Jensen"),
    ],
)
def test_gates_that_say_nothing_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        gate_of(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"kind": "accuracy", "minimum": 1},
            r"gates\.1\.label: 'label' is not a column.*\['x', 's'",
        ),
        ({"kind": "nulls", "column": "y", "max_fraction": 0}, r"gates\.1\.column: 'y' is no"),
        ({"kind": "nulls", "column": "ss", "max_fraction": 0}, r"; did you mean s\?$"),
        ({"kind": "bounds", "column": "s", "minimum": 0}, r"'s' is string, not numbers"),
        ({"kind": "drift", "column": "b", "maximum": 0}, r"'b' is binary, neither text nor"),
        ({"kind": "drift", "column": "u", "maximum": 0}, r"'u' is extension<arrow\.uuid>, neither"),
    ],
)
def test_columns_that_do_not_fit_are_refused(fields: dict[str, Any], message: str) -> None:
    schema = pa.schema({"x": pa.int64(), "s": pa.string(), "b": pa.binary(), "u": pa.uuid()})
    gates = [gate_of(kind="rows", minimum=1), gate_of(**fields)]
    with pytest.raises(InvalidSpec, match=message):
        check_columns(gates, schema)
