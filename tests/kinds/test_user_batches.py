"""Which columns of a batch are found to have come back untouched."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tasks.kinds import user_code
from tasks.kinds.user_batches import TO_USER, BatchFormat, texts_in, untouched
from tasks.protocol.batch import ROW

ROWS = pa.table(
    {
        ROW: [3, 5, 9],
        "text": pa.array(["a", None, "c"], pa.large_string()),
        "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
        "number": pa.array([1.0, None, float("nan")], pa.float32()),
        "tags": pa.array([["a"], [], ["b", "c"]], pa.list_(pa.large_string())),
        "place": [{"x": 1}, None, {"x": 3}],
        "count": pa.array([2**60 + 1, None, 3], pa.int64()),
        "vector": pa.array([[1, 2], None, [5, 6]], pa.list_(pa.int16(), 2)),
        "small": pa.array([1, 2, 3], pa.int8()),
        "nan": pa.array([1.0, float("nan"), 3.0], pa.float32()),
    }
)
ALL = [*ROWS.column_names]
NUMBERS = {ROW, "small", "nan"}
"""Columns that NumPy's arrays have the types of, so that nobody need compare them."""


def written_to(batch: Any) -> Any:
    for name, value in (("text", "z"), ("number", 7.0)):
        if isinstance(batch, pd.DataFrame):
            batch.loc[0, name] = value
        else:
            batch[name][0] = value
    return batch


def twice(batch: Any) -> Any:
    if isinstance(batch, pd.DataFrame):
        return batch.loc[batch.index.repeat(2)]
    return {name: np.repeat(values, 2) for name, values in batch.items()}


def backwards(batch: Any) -> Any:
    return (
        batch[::-1] if isinstance(batch, pd.DataFrame) else {k: v[::-1] for k, v in batch.items()}
    )


def first_left(batch: Any) -> Any:
    return batch[:1] if isinstance(batch, pd.DataFrame) else {k: v[:1] for k, v in batch.items()}


def none_left(batch: Any) -> Any:
    return batch[:0] if isinstance(batch, pd.DataFrame) else {k: v[:0] for k, v in batch.items()}


def moved(batch: Any) -> Any:
    return {**twice(batch), "text": np.array(["a", "a", "c", "c", None, None], dtype=object)}


def without_ids(batch: Any) -> Any:
    return {name: batch[name] for name in batch if name != ROW}


@pytest.mark.parametrize("batch_format", ["numpy", "pandas"])
@pytest.mark.parametrize(
    ("code", "order", "changed"),
    [
        (lambda batch: batch, [0, 1, 2], set()),
        (written_to, [0, 1, 2], {"text", "number"}),
        (twice, [0, 0, 1, 1, 2, 2], set()),
        (backwards, [2, 1, 0], set()),
        (first_left, [0], set()),
        (none_left, [], set()),
        (moved, [0, 0, 1, 1, 2, 2], {"text"}),
        (without_ids, [0, 1, 2], {ROW}),
    ],
)
def test_columns_that_come_back_untouched_lose_nothing_of_their_type(
    code: Any, order: list[int], changed: set[str], batch_format: BatchFormat
) -> None:
    if code is moved and batch_format == "pandas":
        return  # its texts are no arrays
    batch = TO_USER[batch_format](ROWS)
    texts = texts_in(ROWS, batch)
    same = untouched(ROWS, texts, code(batch), batch_format)
    assert same.keys() == {*ALL} - changed - (NUMBERS if batch_format == "numpy" else set())
    returned = user_code.call(code, ROWS, batch_format, with_row_ids=True)
    assert len(returned) == len(order)
    for name in {*ALL} - changed:
        wanted = ROWS[name].take(pa.array(order, pa.int64()))
        assert returned[name].type == wanted.type
        assert str(returned[name].to_pylist()) == str(wanted.to_pylist())  # NaN is no NaN's equal


@pytest.mark.parametrize("batch_format", ["numpy", "pandas"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.list_(pa.int64(), 2), [2**60 + 1, 7]),
        (pa.list_(pa.bool_(), 2), [True, False]),
        (pa.list_(pa.list_(pa.float32(), 2), 1), [[0.5, 1.0]]),
    ],
    ids=str,
)
def test_a_row_without_an_array_changes_none_of_those_beside_it(
    kind: pa.DataType, value: list[Any], batch_format: BatchFormat
) -> None:
    """Arrow makes fractions of whole numbers, and arrays of arrays of an image, in that batch."""
    whole, lacking = (
        [*TO_USER[batch_format](pa.table({"array": pa.array(values, kind)}))["array"]]
        for values in ([value, value], [None, value])
    )
    assert lacking[0] is None
    assert (lacking[1].dtype, lacking[1].shape) == (whole[1].dtype, whole[1].shape)
    assert lacking[1].tolist() == value


@pytest.mark.parametrize("batch_format", ["numpy", "pandas"])
def test_what_children_share_is_as_it_was_where_some_of_them_are_left_out(
    batch_format: BatchFormat,
) -> None:
    """Else a batch in which none is left out would have other types."""
    numbers = [2**60 + 1, 2**60 + 1, None, None, 5]
    times = pa.array([1, 1, 2, 2, None], pa.timestamp("us", "Europe/Berlin"))
    rows = pa.table(
        {
            ROW: pa.array([7, 7, 8, 8, 9], pa.int64()),
            "text": ["a", "b", "c", "d", "e"],
            "number": numbers,
            "at": times,
            "own": pa.array([1, None, 3, 4, 5], pa.int64()),
        }
    )
    kept = [0, 2, 3, 4]

    def some(batch: Any) -> Any:
        if isinstance(batch, pd.DataFrame):
            return batch.iloc[kept]
        return {name: values[kept] for name, values in batch.items()}

    made = user_code.call(some, rows, batch_format, True)
    for name in ("number", "at"):
        assert made[name].type == rows[name].type
    assert made.select([ROW, "text", "number", "at"]).to_pylist() == (
        rows.select([ROW, "text", "number", "at"]).take(kept).to_pylist()
    )
    assert made["own"].to_pylist()[1:] == [3, 4, 5]
