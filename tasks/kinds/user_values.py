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
from tasks.kinds.user_arrays import (
    array_from_numpy,
    array_of_arrays,
    array_of_row,
    as_numpy,
    is_masked,
    nothing_as_lists,
    of_one_type,
    taken_apart,
)
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
        arrays = [*map(array_of_row, values)]
        if any(map(is_masked, arrays)):
            return array_of_arrays(arrays)  # joined, they would have what is masked
        return array_from_numpy(stack(of_one_type(arrays)))
    if isinstance(present, np.datetime64):  # beside one that is missing Arrow takes no days
        none = np.datetime64("NaT")
        times = np.array([none if each is None else each for each in values])
        has_unit = times.dtype != np.dtype("datetime64")  # as one that is not missing has
        return array_from_numpy(times) if has_unit else pa.nulls(len(times))
    if isinstance(present, (Mapping, list, tuple)):
        values = [*map(nothing_as_lists, values)]
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

    Its first value is a tensor or has several dimensions; or they are arrays of which one is of
    another type, empty or masked; or pandas' intervals or periods.
    """
    kind: Any = column.dtype
    kind = kind.categories.dtype if isinstance(kind, pd.CategoricalDtype) else kind
    if not pd.api.types.is_object_dtype(kind):
        return isinstance(kind, (pd.IntervalDtype, pd.PeriodDtype))
    first = next((value for value in column if not (value is None or is_missing(value))), None)
    if not isinstance(first, np.ndarray):
        return hasattr(first, "detach")
    arrays = [each for each in column if isinstance(each, np.ndarray)]
    are_alike = all(each.dtype == first.dtype and each.size for each in arrays)
    return first.ndim > 1 or not are_alike or any(map(is_masked, arrays))
