"""A column's values as gates look at them: one for each row, or numbers."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.kinds.column_types import is_any_list
from tasks.kinds.tensors import is_tensor, tensor_from


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values themselves, within lists and dictionaries."""
    if is_any_list(kind) or pa.types.is_dictionary(kind):
        return value_type(kind.value_type)
    return kind


def is_number(kind: pa.DataType) -> bool:
    """Whether values are numbers."""
    kind = value_type(kind)
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def refuse_no_number(kind: pa.DataType) -> str | None:
    """What is wrong with a column whose values are to be numbers, or arrays of them."""
    own = kind.value_type if isinstance(kind, pa.FixedShapeTensorType) else kind
    return None if is_number(own) or is_tensor(own) else f"is {kind}, not numbers"


def flat(values: pa.Array) -> pa.Array:
    """All values that there are in lists and arrays."""
    if is_tensor(values.type):
        arrays = map(tensor_from, values.to_pylist())
        parts = [each.ravel() for each in arrays if each is not None]
        return pa.array(np.concatenate(parts)) if parts else pa.array([], pa.float64())
    if isinstance(values.type, pa.FixedShapeTensorType):
        return flat(values.storage)
    return flat(pc.list_flatten(values)) if is_any_list(values.type) else values


def refuse_nested(kind: pa.DataType) -> str | None:
    """What is wrong with a column whose values are to be classes or numbers."""
    kind = value_type(kind)
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    is_other = is_binary or isinstance(kind, pa.BaseExtensionType)  # such as tensors
    wrong = pa.types.is_nested(kind) or is_other or pa.types.is_fixed_size_binary(kind)
    return f"is {kind}, neither text nor numbers" if wrong else None


def first_values(column: pa.ChunkedArray) -> pa.Array:
    """One value for each row: of a list the first, which is the best of several predictions."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # without a chunk
        array = pa.array([], column.type)
    while is_any_list(array.type):
        first = pc.list_slice(array, 0, 1, return_fixed_size_list=False)
        rows = pc.list_parent_indices(first).to_numpy()
        at = np.full(len(array), -1)
        at[rows] = np.arange(len(rows))
        array = pc.list_flatten(first).take(pa.array(at, mask=at < 0))
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    return array.cast(pa.string() if pa.types.is_null(kind) else kind)


def numbers(values: pa.Array) -> npt.NDArray[np.float64]:
    """Numbers as doubles; what is missing is NaN."""
    # Some sinks write decimals as text.
    doubles = values.cast(pa.float64(), safe=False)
    return doubles.to_numpy(zero_copy_only=False)
