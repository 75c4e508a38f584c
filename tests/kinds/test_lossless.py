"""Values that become another type stay what they are, or are refused."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tasks.kinds.lossless import cast

MORNING = datetime(2026, 11, 25, 7, 30)
LOSSES = {
    "a number that is no truth": ([2], pa.bool_()),
    "text that is no number": (["00501"], pa.int64()),
    "text that is no number, as a dictionary": (
        pa.array(["00501"]).dictionary_encode(),
        pa.int64(),
    ),
    "an hour of a day": ([MORNING], pa.date32()),
    "seconds that are no milliseconds": ([1_764_000_000], pa.timestamp("ms")),
    "a time that is no number": ([MORNING], pa.int64()),
    "a number that decimals round": ([1.239], pa.decimal128(10, 2)),
    "a whole number beyond the decimals' digits": ([10**8], pa.decimal128(10, 2)),
    "a number beyond floats": ([1e300], pa.float32()),
    "a number beyond floats, in lists": ([[0.5], [1e300, None], None], pa.list_(pa.float32())),
    "a number beyond floats, in structs": ([{"a": -1e300}], pa.struct({"a": pa.float32()})),
    "a number beyond halves": ([1e10], pa.float16()),
    "a fraction": ([0.5], pa.int64()),
    "a number too large": ([1 << 40], pa.int32()),
    "text in lists": ([["00501"]], pa.list_(pa.int64())),
    "text in lists of objects": ([["00501"]], pa.list_(pa.struct({"zip": pa.int64()}))),
    "text in structs": ([{"zip": "00501"}], pa.struct({"zip": pa.int64()})),
    "a struct's field": ([{"a": 1, "b": 2}], pa.struct({"a": pa.int64()})),
    "text in maps": (
        pa.array([[("a", "00501")]], pa.map_(pa.string(), pa.string())),
        pa.map_(pa.string(), pa.int64()),
    ),
    "bytes that are no text": ([b"\xff"], pa.string()),
    "a number that is no date": ([20_000], pa.date32()),
    "an hour that is no number": ([time(7, 30)], pa.int64()),
}
KEPT = {
    "more room": ([1], pa.int64(), [1]),
    "numbers as floats": ([1, None], pa.float64(), [1.0, None]),
    "floats that fit, and one that was infinite": (
        [0.5, float("inf")],
        pa.float32(),
        [0.5, float("inf")],
    ),
    "whole numbers as decimals": ([7, None], pa.decimal128(10, 2), [Decimal("7.00"), None]),
    "truth as a number": ([True], pa.int8(), [1]),
    "a day as a time": ([date(2026, 11, 25)], pa.timestamp("us"), [datetime(2026, 11, 25)]),
    "a time as UTC's": (
        [MORNING],
        pa.timestamp("us", "UTC"),
        [MORNING.replace(tzinfo=UTC)],
    ),
    "an instant of UTC as a time without a zone": (
        [MORNING.replace(tzinfo=UTC)],
        pa.timestamp("us"),
        [MORNING],
    ),
    "numbers as text": ([501], pa.string(), ["501"]),
    "lists of one size": ([[1.0, 2.0]], pa.list_(pa.float32(), 2), [[1.0, 2.0]]),
    "a struct with one field less": (
        [{"a": 1}],
        pa.struct({"a": pa.int64(), "b": pa.string()}),
        [{"a": 1, "b": None}],
    ),
    "text that is none": (pa.array([None], pa.string()), pa.int64(), [None]),
    "lists without values": ([[]], pa.list_(pa.int64()), [[]]),
    "lists of texts, of which there are none": (
        pa.array([[], None, [None]], pa.list_(pa.string())),
        pa.list_(pa.int64()),
        [[], None, [None]],
    ),
    "objects with a text, which all lack": (
        pa.array([{"a": 1, "b": None}], pa.struct({"a": pa.int64(), "b": pa.string()})),
        pa.struct({"a": pa.int64(), "b": pa.float64()}),
        [{"a": 1, "b": None}],
    ),
    "lists of objects, of which there are none": (
        pa.array([[], None, []], pa.list_(pa.string())),
        pa.list_(pa.struct({"at": pa.int64()})),
        [[], None, []],
    ),
    "such lists within objects, and within lists": (
        pa.array(
            [[{"a": [], "b": "x"}], None, []],
            pa.list_(pa.struct({"a": pa.list_(pa.string()), "b": pa.string()})),
        ),
        pa.list_(pa.struct({"a": pa.list_(pa.struct({"at": pa.int64()})), "b": pa.string()})),
        [[{"a": [], "b": "x"}], None, []],
    ),
    "a text of a dictionary": (pa.array(["a"]).dictionary_encode(), pa.string(), ["a"]),
    "text as bytes": (["a"], pa.binary(), [b"a"]),
}


@pytest.mark.parametrize(("values", "wants"), LOSSES.values(), ids=LOSSES)
def test_what_would_be_lost_is_refused(values: Any, wants: pa.DataType) -> None:
    with pytest.raises((pa.ArrowInvalid, pa.ArrowNotImplementedError)):
        cast(pa.chunked_array([values]), wants)


@pytest.mark.parametrize(("values", "wants", "expected"), KEPT.values(), ids=KEPT)
def test_what_stays_is_cast(values: Any, wants: pa.DataType, expected: list[Any]) -> None:
    found = cast(pa.chunked_array([values]), wants)
    assert (found.type, found.to_pylist()) == (wants, expected)


def test_fields_that_nobody_asks_for_are_left_out_as_columns_are() -> None:
    column = pa.chunked_array([[{"a": 1, "b": 2}]])
    found = cast(column, pa.struct({"a": pa.int64()}), all_fields=False)
    assert found.to_pylist() == [{"a": 1}]
