"""One column that user code returned, as Arrow has it."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tasks.errors import UserCodeBroke
from tasks.kinds.columns import stack
from tasks.kinds.tensors import tensor_array
from tasks.protocol.batch import ROW

NO_COLUMN = (str, bytes, bytearray, Mapping, set, frozenset)
"""What has several values, and none for each row."""
DIGITS_BEFORE_POINT = 18
"""Of decimals that code makes, at least: some of 20 places still fit beside."""
MOST_DIGITS = 38
"""Of decimals that all readers know."""
OF_NO_TYPE = re.compile(r"with type (\S+): did not recognize Python value type")


def column_from_user(name: object, values: Any) -> pa.Array:
    """One returned column as Arrow.

    Raises:
        UserCodeBroke: the ids have no Arrow type; or it is one text, or a set of values.
        TypeError: another column has none.
    """
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return in_own_memory(values)
    if isinstance(values, NO_COLUMN):
        raise UserCodeBroke(
            f"it returned column {name!r} as {type(values).__name__}: return one value for each "
            "row, in the rows' order, for example a list"
        )
    try:
        return with_room(array_from(values))
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        kind = UserCodeBroke if name == ROW else TypeError  # ids are none of the data's doing
        raise kind(f"column {name!r} has no Arrow type: {reason(error)}") from error


def with_room(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Values with room for larger decimals, at any depth.

    Arrow takes as many digits as the largest of a batch has, and a type is for all nights to come.
    """
    kind = roomy(array.type)
    return array if kind == array.type else array.cast(kind)


def roomy(kind: pa.DataType) -> pa.DataType:
    """A type of Arrow's choice, with room for larger decimals."""
    if pa.types.is_decimal128(kind):
        wanted = max(kind.precision, kind.scale + DIGITS_BEFORE_POINT)
        return pa.decimal128(min(wanted, MOST_DIGITS), kind.scale)
    if pa.types.is_list(kind):
        return pa.list_(roomy(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, roomy(each.type)) for each in kind])
    return kind


def reason(error: Exception) -> str:
    """Why values make no column; Arrow would show an object's place in memory, another each row."""
    if not (found := OF_NO_TYPE.search(str(error))):
        return str(error)
    return (
        f"it contains {found[1]}: return numbers, texts, bytes, dates, or lists, dicts or arrays "
        "of them, such as np.asarray(image) for an image"
    )


def in_own_memory(values: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """A copy: Arrow takes NumPy's memory as it is, and the code may fill that for the next rows.

    Runs of equal values are written out, of which Arrow's own functions lose the places.
    """
    if pa.types.is_run_end_encoded(values.type):
        values = pc.run_end_decode(values)
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    return pa.chunked_array([pa.concat_arrays([each]) for each in chunks], values.type)


def array_from(values: Any) -> pa.Array:
    """Values of rows, however they are held, as an array.

    One that is alone is that of the only row: `squeeze` leaves no dimension of a batch of one.

    Raises:
        TypeError: there are none.
    """
    if values is None:
        raise TypeError("it is None instead of a value for each row")
    if isinstance(values, (pd.Index, pd.api.extensions.ExtensionArray)):
        values = pd.Series(values)
    if isinstance(values, pd.Series):
        values = values_of(values)
    values = as_numpy(values)
    if isinstance(values, np.ndarray):
        return array_from_numpy(values.copy())  # the code may fill its memory for the next rows
    if isinstance(values, np.generic) or not isinstance(values, Iterable):
        values = [values]
    values = [None if is_pandas_none(each) else as_numpy(each) for each in values]
    present = next((value for value in values if value is not None), None)
    if isinstance(present, np.ndarray):
        return array_from_numpy(stack(values))
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([*map(taken_apart, values)])


def values_of(column: pd.Series) -> Any:
    """A series' values, periods as texts; missing ones as None, but those of floats stay NaN."""
    if isinstance(column.dtype, np.dtype) and column.dtype != object:
        return column.to_numpy()
    if isinstance(column.dtype, pd.PeriodDtype):
        return [None if is_missing(value) else str(value) for value in column]
    if column.dtype != object:
        return pa.Array.from_pandas(column).to_pylist()
    return [None if is_missing(value) else value for value in column]


def is_missing(value: object) -> bool:
    """Whether a value is one of those that pandas has for none, NaN among them."""
    return is_pandas_none(value) or (isinstance(value, float) and math.isnan(value))


def is_pandas_none(value: object) -> bool:
    """Whether a value is pandas' own for none, which nobody else has."""
    return value is pd.NA or value is pd.NaT


def needs_own_way(column: pd.Series) -> bool:
    """Whether Arrow makes nothing of a series, or what no reader of files knows.

    Its first value is a tensor or has several dimensions; or they are pandas' intervals or periods.
    """
    kind: Any = column.dtype
    kind = kind.categories.dtype if isinstance(kind, pd.CategoricalDtype) else kind
    if not pd.api.types.is_object_dtype(kind):
        return isinstance(kind, (pd.IntervalDtype, pd.PeriodDtype))
    first = next((value for value in column if not (value is None or is_missing(value))), None)
    return hasattr(first, "detach") or (isinstance(first, np.ndarray) and first.ndim > 1)


def as_numpy(value: Any) -> Any:
    """The numbers of a tensor of torch's, JAX's or TensorFlow's; anything else as it is.

    None of these is imported for it.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    elif isinstance(value, np.matrix) or lies_on_device(value):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        return value
    return in_arrows_types(value)[()] if value.ndim == 0 else in_arrows_types(value)


def lies_on_device(value: object) -> bool:
    """Whether a value is one of JAX's or TensorFlow's arrays, which say where they lie."""
    is_numpys = isinstance(value, (np.ndarray, np.generic))
    return not is_numpys and hasattr(value, "__array__") and hasattr(value, "device")


def taken_apart(value: Any) -> Any:
    """A value with nothing in it that Arrow does not take there: arrays are lists of rows."""
    if isinstance(value, Mapping):
        return {name: taken_apart(each) for name, each in value.items()}
    value = as_numpy(value)
    is_deep = isinstance(value, np.ndarray) and value.ndim > 1
    return [*map(taken_apart, value)] if is_deep or isinstance(value, (list, tuple)) else value


def holds_arrays(value: np.ndarray) -> bool:
    """Whether a row's values are arrays themselves."""
    if value.dtype != object:
        return False
    return isinstance(next((each for each in value if each is not None), None), np.ndarray)


def as_lists(value: Any, *, also_empty: bool = False) -> Any:
    """Arrays of arrays as lists, at any depth; arrays that are numbers' or texts' stay.

    Args:
        value: of a row.
        also_empty: whether arrays without values are lists too, whatever type and depth they have.
    """
    value = as_numpy(value)
    if not isinstance(value, np.ndarray):
        return value
    if value.ndim == 1 and value.dtype != object and (value.size or not also_empty):
        return value
    return [as_lists(each, also_empty=also_empty) for each in value]


def array_of_arrays(items: list[np.ndarray | None]) -> pa.Array:
    """Arrays of arrays as a column of lists of lists."""
    try:
        return pa.array([as_lists(item) for item in items])
    except pa.ArrowException:
        return pa.array([as_lists(item, also_empty=True) for item in items])


def array_from_numpy(values: np.ndarray) -> pa.Array:
    """An array as a column: 2-D and more become lists of fixed size."""
    if values.ndim == 0:
        raise ValueError("it is a single value instead of one for each row")
    if values.dtype == object and values.ndim > 1:
        return pa.array(values.tolist())
    if values.dtype == object:
        items = [as_numpy(each) for each in values]
        present = [item for item in items if item is not None]
        if present and all(isinstance(item, np.ndarray) for item in present):
            flat = all(item.ndim == 1 for item in present)
            # A tensor's bytes would be where Python's objects lie, and not what they are.
            has_objects = not flat and any(item.dtype == object for item in present)
            if has_objects or any(map(holds_arrays, present)):
                return array_of_arrays(items)
            return pa.array(items) if flat else tensor_array(items)
        return pa.array(items)
    if values.ndim == 1:
        return pa.array(values)
    inner = array_from_numpy(values.reshape(-1, *values.shape[2:]))
    return pa.FixedSizeListArray.from_arrays(inner, values.shape[1])


def in_arrows_types(values: np.ndarray) -> np.ndarray:
    """Numbers in this machine's order of bytes, and bfloat16, which NumPy has not, as float32."""
    if values.dtype.name == "bfloat16":
        return values.astype(np.float32)
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))
