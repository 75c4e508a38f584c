"""Columns of arrays whose shapes differ from row to row."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

TENSOR = pa.struct([("data", pa.binary()), ("shape", pa.list_(pa.int32())), ("dtype", pa.string())])
TENSOR_FIELDS = tuple(each.name for each in TENSOR)


def is_tensor(kind: pa.DataType) -> bool:
    """Whether a column holds arrays of differing shapes, as `tensor_array` makes them."""
    if not pa.types.is_struct(kind):
        return False
    return tuple(kind.field(i).name for i in range(kind.num_fields)) == TENSOR_FIELDS


def tensor_from(value: Mapping[str, Any] | None) -> np.ndarray | None:
    """One array of a tensor column."""
    if value is None:
        return None
    return np.frombuffer(value["data"], dtype=value["dtype"]).reshape(value["shape"])


def tensor_array(arrays: Sequence[np.ndarray | None]) -> pa.Array:
    """Arrays of differing shapes as a column of (bytes, shape, dtype)."""
    values = [
        None if each is None else (each.tobytes(), list(each.shape), each.dtype.str)
        for each in arrays
    ]
    return pa.StructArray.from_arrays(
        [
            pa.array([value and value[at] for value in values], each.type)
            for at, each in enumerate(TENSOR)
        ],
        names=list(TENSOR_FIELDS),
        mask=pa.array([value is None for value in values], pa.bool_()),
    )
