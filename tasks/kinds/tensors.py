"""Columns of arrays whose shapes differ from row to row."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import UserCodeBroke

TENSOR = pa.struct([("data", pa.binary()), ("shape", pa.list_(pa.int32())), ("dtype", pa.string())])
TENSOR_FIELDS = tuple(each.name for each in TENSOR)


def is_tensor(kind: pa.DataType) -> bool:
    """Whether a column holds arrays of differing shapes, as `tensor_array` makes them.

    Not where somebody's own objects have these names, and texts or numbers in them.
    """
    if not pa.types.is_struct(kind) or tuple(each.name for each in kind) != TENSOR_FIELDS:
        return False
    data, shape, dtype = (each.type for each in kind)
    is_data = pa.types.is_binary(data) or pa.types.is_large_binary(data)
    is_shape = pa.types.is_list(shape) or pa.types.is_large_list(shape)
    return is_data and is_shape and (pa.types.is_string(dtype) or pa.types.is_large_string(dtype))


def tensor_from(value: Mapping[str, Any] | None) -> np.ndarray | None:
    """One array of a tensor column."""
    if value is None:
        return None
    return np.frombuffer(value["data"], dtype=value["dtype"]).reshape(value["shape"])


def tensor_array(arrays: Sequence[np.ndarray | None]) -> pa.Array:
    """Arrays of differing shapes as a column of (bytes, shape, dtype).

    Raises:
        UserCodeBroke: one holds Python's objects, of which these would be the places in memory.
    """
    if any(each is not None and each.dtype.hasobject for each in arrays):
        problem = "return lists of them, or arrays of numbers that lack none"
        raise UserCodeBroke(f"it returned arrays of several shapes that hold objects: {problem}")
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
