"""Between Arrow tables and what user code works on: NumPy arrays, pandas frames, and back."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tasks.errors import UserCodeBroke
from tasks.kinds.tensors import is_tensor, tensor_array, tensor_from
from tasks.protocol.batch import RESERVED, ROW
from tasks.protocol.ids import Ids

MEDIA = b"media"
"""Field metadata: what a column of files holds. It stays when they are decoded, and keeps the
column out of the output unless the sink's `keep_columns` names it."""
IMAGE, AUDIO, FILE = b"image", b"audio", b"file"


def is_media(each: pa.Field) -> bool:
    """Whether a column came from files, encoded or not."""
    return MEDIA in (each.metadata or {})


def is_encoded(each: pa.Field, media: bytes) -> bool:
    """Whether a column holds images or sound that are to be decoded."""
    return is_media(each) and each.metadata[MEDIA] == media and pa.types.is_binary(each.type)


def to_numpy(rows: pa.Table) -> dict[str, np.ndarray]:
    """Columns as arrays: lists of one length as 2-D, media decoded, the rest as objects.

    They may be written to, as user code is free to do.

    Raises:
        ValueError: an image or sound cannot be decoded.
    """
    rows = decoded(rows)
    return {name: writable(column_to_numpy(rows[name])) for name in rows.column_names}


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


def column_to_numpy(column: pa.ChunkedArray) -> np.ndarray:
    """One column as an array; the first dimension is rows."""
    kind = column.type
    if is_tensor(kind):
        return stack([tensor_from(value) for value in column.to_pylist()])
    if pa.types.is_fixed_size_list(kind) and not column.null_count:
        flat = column.combine_chunks().flatten()
        inner = column_to_numpy(pa.chunked_array([flat]))
        return inner.reshape(len(column), kind.list_size, *inner.shape[1:])
    if is_list(kind) and is_plain_number(kind.value_type) and not has_gaps(column):
        return stack(pieces(column))
    if is_list(kind):
        return stack([None if value is None else array_of(value) for value in column.to_pylist()])
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)  # else a missing value shows as another one
    return column.to_numpy()


def is_plain_number(kind: pa.DataType) -> bool:
    """Whether NumPy has the very same numbers."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def has_gaps(column: pa.ChunkedArray) -> bool:
    """Whether a list or a value in one is missing."""
    return bool(column.null_count) or any(chunk.values.null_count for chunk in column.chunks)


def pieces(column: pa.ChunkedArray) -> list[np.ndarray]:
    """A column of lists of numbers as arrays of their type, none of them made a Python object."""
    found: list[np.ndarray] = []
    for chunk in column.chunks:
        values = chunk.values.to_numpy()
        offsets = chunk.offsets.to_numpy()
        found += [values[start:stop] for start, stop in pairwise(offsets.tolist())]
    return found


def is_list(kind: pa.DataType) -> bool:
    """Whether a column holds lists of any length."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds texts, also where numbers stand for them."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def inner(kind: pa.DataType) -> Iterator[pa.DataType]:
    """A type and all types within it."""
    yield kind
    if pa.types.is_dictionary(kind):
        yield from inner(kind.value_type)
    for at in range(kind.num_fields):
        yield from inner(kind.field(at).type)


def array_of(values: list[Any]) -> np.ndarray:
    """A list as an array; where lists in it differ in length, an array of arrays."""
    try:
        return np.asarray(values)
    except ValueError:
        out = np.empty(len(values), dtype=object)
        for at, value in enumerate(values):
            out[at] = array_of(value) if isinstance(value, list) else value
        return out


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

    Raises:
        ValueError: an image cannot be decoded.
    """
    rows = decoded(rows).replace_schema_metadata(None)
    deep = [each.name for each in rows.schema if is_deep(each.type)]
    frame: pd.DataFrame = rows.drop_columns(deep).to_pandas()
    for name in deep:
        arrays = list(writable(column_to_numpy(rows[name])))
        frame.insert(rows.column_names.index(name), name, pd.Series(arrays, frame.index, object))
    return frame


def is_deep(kind: pa.DataType) -> bool:
    """Whether a column's values are arrays of two or more dimensions, or tensors."""
    if pa.types.is_fixed_size_list(kind):
        return pa.types.is_fixed_size_list(kind.value_type)
    return is_tensor(kind)


def tensors_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Arrays of one shape as arrays of differing shapes are held; a missing one stays so."""
    if is_tensor(column.type):
        return column
    arrays = iter(column_to_numpy(column.drop_null()))
    held = [next(arrays) if there else None for there in column.is_valid().to_pylist()]
    return pa.chunked_array([tensor_array(held)])


def same_values(sent: pa.ChunkedArray, returned: pa.ChunkedArray) -> bool:
    """Whether a column came back as it was sent; NaN equals NaN."""
    try:
        returned = returned.cast(sent.type)
    except pa.ArrowException:
        return False
    return equal_arrays(combined(sent), combined(returned))


def combined(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


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
    if is_list(kind) or pa.types.is_fixed_size_list(kind):
        same = pc.list_value_length(sent).equals(pc.list_value_length(returned))
        return same and equal_arrays(sent.flatten(), returned.flatten())
    return False


def from_user(batch: Any, untouched: Mapping[str, pa.ChunkedArray] | None = None) -> pa.Table:
    """What user code returned as a table.

    Args:
        batch: what it returned.
        untouched: columns that need not be converted, as they are published.

    Raises:
        UserCodeBroke: it is no dict of columns, frame or table, two columns have one name, columns
            differ in length, or ids have no Arrow type.
        TypeError: a column has no Arrow type.
    """
    untouched = untouched or {}
    if isinstance(batch, pa.Table):
        refuse_namesakes(batch.column_names)
        return batch
    if isinstance(batch, pd.DataFrame):
        refuse_namesakes(batch.columns)
        return from_frame(batch, untouched)
    if not isinstance(batch, Mapping):
        problem = "a dict of columns or a frame is wanted, with a value for each row"
        raise UserCodeBroke(f"it returned {type(batch).__name__}: {problem}")
    refuse_namesakes(batch)
    arrays = {
        str(name): untouched[name] if name in untouched else column_from_user(name, values)
        for name, values in batch.items()
    }
    refuse_ragged(arrays)
    return pa.table(arrays)


def refuse_namesakes(names: Iterable[object]) -> None:
    """Two columns of one name are none of the data's doing.

    Raises:
        UserCodeBroke: names them.
    """
    counts = Counter(map(str, names))
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise UserCodeBroke(f"more than one column is named {twice[0]!r}: return each name once")


def refuse_ragged(arrays: Mapping[str, pa.Array | pa.ChunkedArray]) -> None:
    """Columns of unequal length are none of the data's doing.

    Raises:
        UserCodeBroke: names them with their lengths.
    """
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise UserCodeBroke(
            f"columns of unequal length came back, {lengths}: return one value for each row in "
            "every column"
        )


def row_ids(returned: pa.Table) -> Ids:
    """The ids in the column `__row` that came back.

    Raises:
        UserCodeBroke: there are two such columns, or one of something else than ids.
    """
    refuse_namesakes(returned.column_names)
    wanted = "return the ids that were given in it, as they are"
    try:
        ids = returned[ROW].cast(pa.int64())
    except pa.ArrowException as error:
        raise UserCodeBroke(f"{ROW} came back with what is no id: {wanted} ({error})") from error
    if ids.null_count:
        raise UserCodeBroke(f"{ROW} came back with missing values: {wanted}")
    return ids.to_numpy()


def from_frame(frame: pd.DataFrame, untouched: Mapping[str, pa.ChunkedArray]) -> pa.Table:
    """A frame's columns; its index is not one of them."""
    left = [name for name in frame.columns if name not in untouched]
    plain = [name for name in left if not is_array(frame[name].iloc[:1].tolist())]
    rows = pa.Table.from_pandas(frame[plain], preserve_index=False)
    arrays = {**untouched, **dict(zip(map(str, plain), rows.columns, strict=True))}
    for name in set(left) - set(plain):
        arrays[str(name)] = column_from_user(name, frame[name].tolist())
    return pa.table({str(name): arrays[str(name)] for name in frame.columns})


def is_array(first: list[Any]) -> bool:
    """Whether a column's first value has more than one dimension, which pandas cannot convert."""
    return any(isinstance(value, np.ndarray) and value.ndim > 1 for value in first)


def positions(given: Ids, returned: Ids) -> Ids | None:
    """Where the rows that came back lay among those given; None: just as they were given.

    Children of one row are taken to be in their order.

    Raises:
        UserCodeBroke: ids were not given, or some children of a row stayed away or came twice.
    """
    if np.array_equal(given, returned):
        return None
    order = np.argsort(given, kind="stable")
    first, counts = spans(given[order], returned)
    if (counts == 0).any():
        unknown = np.unique(returned[counts == 0])[:3].tolist()
        raise UserCodeBroke(f"{ROW} came back with ids that were not given: {unknown}")
    back = np.argsort(returned, kind="stable")
    first_back, counts_back = spans(returned[back], returned)
    rank = np.empty(len(returned), dtype=np.int64)
    rank[back] = np.arange(len(returned)) - first_back[back]
    several = counts > 1
    if (several & (counts != counts_back)).any():
        at = int(np.flatnonzero(several & (counts != counts_back))[0])
        raise UserCodeBroke(
            f"the row {returned[at]} was given as {counts[at]} rows of one {ROW} and came back as "
            f"{counts_back[at]}, so what belongs to which cannot be told: return as many, in "
            "their order, or every input column that is kept"
        )
    result: Ids = order[first + np.where(several, rank, 0)]
    return result


def spans(ordered: Ids, ids: Ids) -> tuple[Ids, Ids]:
    """Where each id begins among ordered ones, and how often it is there."""
    first = np.searchsorted(ordered, ids, side="left")
    return first, np.searchsorted(ordered, ids, side="right") - first


def column_from_user(name: object, values: Any) -> pa.Array:
    """One returned column as Arrow.

    Raises:
        UserCodeBroke: the ids have no Arrow type.
        TypeError: another column has none.
    """
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if hasattr(values, "detach"):  # a torch tensor; torch is not imported for this
        values = values.detach().cpu().numpy()
    try:
        if isinstance(values, np.ndarray):
            return array_from_numpy(values)
        values = list(values)
        present = [value for value in values if value is not None]
        if present and isinstance(present[0], np.ndarray) and present[0].ndim > 0:
            return array_from_numpy(stack(values))
        return pa.array(values)
    except (TypeError, ValueError, pa.ArrowException) as error:
        kind = UserCodeBroke if name == ROW else TypeError  # ids are none of the data's doing
        raise kind(f"column {name!r} has no Arrow type: {error}") from error


def array_from_numpy(values: np.ndarray) -> pa.Array:
    """An array as a column: 2-D and more become lists of fixed size."""
    if values.ndim == 0:
        raise ValueError("a single value, where one for each row is wanted")
    if values.dtype == object:
        items = list(values)
        present = [item for item in items if item is not None]
        if present and all(isinstance(item, np.ndarray) for item in present):
            flat = all(item.ndim == 1 for item in present)
            return pa.array(items) if flat else tensor_array(items)
        return pa.array(items)
    if values.ndim == 1:
        return pa.array(values)
    inner = array_from_numpy(values.reshape(-1, *values.shape[2:]))
    return pa.FixedSizeListArray.from_arrays(inner, values.shape[1])
