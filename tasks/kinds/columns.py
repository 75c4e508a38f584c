"""Arrow columns as what user code works on: NumPy arrays and pandas frames."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tasks.kinds.column_types import is_any_list, is_deep, is_list, is_plain_number, is_text
from tasks.kinds.tensors import is_tensor, tensor_from
from tasks.protocol.batch import RESERVED

FEW_ROWS = 4_096
"""To begin threads for so few takes longer than to convert them."""


def to_numpy(rows: pa.Table) -> dict[str, np.ndarray]:
    """Columns as arrays: lists of one length as 2-D, media decoded, the rest as objects.

    They may be written to, as user code is free to do.

    Raises:
        ValueError: an image or sound cannot be decoded.
    """
    texts = {each.name for each in rows.schema if is_text(each.type)}  # Python's own objects
    arrays = to_numpy_read_only(rows)
    return {name: arrays[name] if name in texts else writable(arrays[name]) for name in arrays}


def to_numpy_read_only(rows: pa.Table) -> dict[str, np.ndarray]:
    """The same, but nobody may write into them.

    Raises:
        ValueError: an image or sound cannot be decoded.
    """
    rows = decoded(rows)
    return {name: column_to_numpy(rows[name]) for name in rows.column_names}


def decoded(rows: pa.Table) -> pa.Table:
    """Rows with their encoded media decoded."""
    from tasks.kinds.media import decode_media_columns

    return decode_media_columns(rows)


def writable(array: np.ndarray) -> np.ndarray:
    """The array, or a copy where it or an array in it shows Arrow's memory."""
    if array.dtype == object:
        for at, item in enumerate(array):
            if isinstance(item, np.ndarray) and not item.flags.writeable:
                array[at] = item.copy()
    return array if array.flags.writeable else array.copy()


def children(rows: pa.Table, parents: Sequence[int], each: pa.Field, values: pa.Array) -> pa.Table:
    """Rows of which each stands for a part of its parent: other columns are repeated.

    Args:
        rows: the parents.
        parents: for each child, where its parent lies among them.
        each: the column that was cut up; the whole is large and never repeated.
        values: its parts, one for each child.
    """
    at = rows.column_names.index(each.name)
    others = rows.drop_columns(each.name).take(pa.array(parents, pa.int64()))
    return others.add_column(at, each, values)


def visible(rows: pa.Table) -> list[str]:
    """Columns user code sees: neither row ids nor what a model needs only on the way."""
    return [name for name in rows.column_names if not name.startswith(RESERVED)]


def is_blank(column: pa.ChunkedArray) -> bool:
    """Whether a column is text and has none: sources make text of one that is empty in all rows."""
    return is_text(column.type) and column.null_count == len(column) > 0


def with_column(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """Rows with a column, in its place where there was one."""
    if name in rows.column_names:
        return rows.set_column(rows.column_names.index(name), name, values)
    return rows.append_column(name, values)


def column_to_numpy(column: pa.ChunkedArray) -> np.ndarray:
    """One column as an array; the first dimension is rows.

    Where it can be, it is the column's own memory, and nobody may write into it.
    """
    kind = column.type
    if is_tensor(kind):
        return stack([tensor_from(value) for value in column.to_pylist()])
    if isinstance(kind, pa.FixedShapeTensorType):
        return arrays_of_one_shape(column)
    if lacks_some(column):
        # Arrow's own way makes fractions of whole numbers, and of images arrays of arrays.
        return beside_missing(column, column_to_numpy(column.drop_null()))
    if pa.types.is_fixed_size_list(kind):
        flat = in_one(column).flatten()
        inner = column_to_numpy(pa.chunked_array([flat]))
        return inner.reshape(len(column), kind.list_size, *inner.shape[1:])
    if is_list(kind) and is_plain_number(kind.value_type) and not has_gaps(column):
        return stack(pieces(column))
    if is_list(kind):
        number, values = number_in(kind), column.to_pylist()
        return stack([None if each is None else array_of(each, number) for each in values])
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)  # else a missing value shows as another one
    return in_one(column).to_numpy(zero_copy_only=False)


def arrays_of_one_shape(column: pa.ChunkedArray) -> np.ndarray:
    """A column of Arrow's own tensors; as objects where one is missing."""
    kind, present = column.type, pa.chunked_array([in_one(column.drop_null()).storage])
    order = kind.permutation or range(len(kind.shape))
    stored = column_to_numpy(present).reshape(-1, *kind.shape)
    arrays = stored.transpose(0, *(1 + axis for axis in order))
    return beside_missing(column, arrays) if column.null_count else arrays


def beside_missing(column: pa.ChunkedArray, present: np.ndarray) -> np.ndarray:
    """A column's values as objects, with None for missing ones.

    Args:
        column: tells which are missing.
        present: the others.
    """
    left = iter(present)
    return stack([next(left) if there else None for there in column.is_valid().to_pylist()])


def in_one(column: pa.ChunkedArray) -> pa.Array:
    """A column's chunks as one; a single one is not copied."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def has_gaps(column: pa.ChunkedArray) -> bool:
    """Whether a value in a list is missing."""
    return any(chunk.values.null_count for chunk in column.chunks)


def pieces(column: pa.ChunkedArray) -> list[np.ndarray | None]:
    """A column of lists of numbers as arrays of their type, none of them made a Python object."""
    found: list[np.ndarray | None] = []
    for chunk in column.chunks:
        values = chunk.values.to_numpy()
        offsets = chunk.offsets.to_numpy()
        spans = zip(pairwise(offsets.tolist()), chunk.is_valid().to_pylist(), strict=True)
        found += [values[slice(*span)] if there else None for span, there in spans]
    return found


def number_in(kind: pa.DataType) -> np.dtype | None:
    """NumPy's type of the numbers in lists, however deep; None where they hold something else."""
    while is_any_list(kind):
        kind = kind.value_type
    return np.dtype(kind.to_pandas_dtype()) if is_plain_number(kind) else None


def array_of(values: list[Any], number: np.dtype | None) -> np.ndarray:
    """A list as an array; where lists in it differ in length, an array of arrays.

    Args:
        values: of the list.
        number: type of the numbers in it: Python's own are of 64 bits, whatever the column has.
    """
    try:
        found = np.asarray(values)
    except ValueError:
        found = np.empty(len(values), dtype=object)
        for at, value in enumerate(values):
            found[at] = array_of(value, number) if isinstance(value, list) else value
    if found.dtype.kind == "S":  # which NumPy has without the zeros at their end
        found = np.asarray(values, object)
    is_other = number is not None and found.dtype.kind in "iuf" and found.dtype != number
    return np.asarray(values, number) if is_other else found


def stack(values: Sequence[np.ndarray | None]) -> np.ndarray:
    """Arrays of one shape as one array, others as an array of objects."""
    shapes = {None if value is None else value.shape for value in values}
    if len(shapes) == 1 and None not in shapes:
        return np.stack([value for value in values if value is not None])
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def to_pandas(rows: pa.Table) -> pd.DataFrame:
    """Columns as a frame, with arrays for images and whatever else has more than one dimension.

    These, and lists, may be written to.

    Raises:
        ValueError: an image cannot be decoded.
    """
    rows = decoded(rows).replace_schema_metadata(None)
    deep = [each.name for each in rows.schema if is_deep(each.type) or lacks_some(rows[each.name])]
    frame: pd.DataFrame = rows.drop_columns(deep).to_pandas(use_threads=len(rows) > FEW_ROWS)
    for each in rows.schema:
        if is_any_list(each.type) and each.name not in deep:
            lists = writable(frame[each.name].to_numpy(copy=True))
            frame[each.name] = pd.Series(lists, frame.index, object)
    for name in deep:
        arrays = list(writable(column_to_numpy(rows[name])))
        frame.insert(rows.column_names.index(name), name, pd.Series(arrays, frame.index, object))
    return frame


def lacks_some(column: pa.ChunkedArray) -> bool:
    """Whether a column has lists of one size, and rows without."""
    return pa.types.is_fixed_size_list(column.type) and column.null_count > 0


def same_values(sent: pa.ChunkedArray, returned: pa.ChunkedArray) -> bool:
    """Whether a column came back as it was sent; NaN equals NaN."""
    try:
        returned = returned.cast(sent.type)
    except pa.ArrowException:
        return False
    return equal_arrays(in_one(sent), in_one(returned))


def equal_arrays(sent: pa.Array, returned: pa.Array) -> bool:
    """Whether two arrays of one type hold the same values, NaN and missing ones included."""
    kind = sent.type
    if sent.equals(returned):
        return True
    if len(sent) != len(returned):
        return False
    if pa.types.is_floating(kind):
        first, second = (each.to_numpy(zero_copy_only=False) for each in (sent, returned))
        return np.array_equal(first, second, equal_nan=True)
    if pa.types.is_struct(kind):
        same = sent.is_valid().equals(returned.is_valid())
        return same and all(map(equal_arrays, sent.flatten(), returned.flatten()))
    if is_any_list(kind):
        same = pc.list_value_length(sent).equals(pc.list_value_length(returned))
        return same and equal_arrays(sent.flatten(), returned.flatten())
    return False
