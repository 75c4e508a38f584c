"""Arrays of which some calls saw one shape and others several, brought to one type."""

from itertools import chain

import pyarrow as pa

from tasks.kinds.column_types import is_any_list, is_deep, is_list
from tasks.kinds.columns import beside_missing, column_to_numpy
from tasks.kinds.tensors import is_tensor, tensor_array


def tensors_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Arrays of one shape as arrays of differing shapes are held; a missing one stays so."""
    if is_tensor(column.type):
        return column
    arrays = beside_missing(column, column_to_numpy(column.drop_null()))
    return pa.chunked_array([tensor_array([*arrays])])


def held_as(column: pa.ChunkedArray, wants: pa.DataType) -> pa.ChunkedArray:
    """A column's arrays as another type holds them; anything else as it is.

    What user code returns for some rows is of one shape, and for others of several.

    Args:
        column: to be cast.
        wants: the type.

    Raises:
        pyarrow.ArrowInvalid: an array has not as many dimensions as the type.
    """
    if is_tensor(wants) and is_deep(column.type) and not has_words(column.type):
        return tensors_of(column)
    if is_list(wants) and is_tensor(column.type):
        arrays = [None if each is None else each.tolist() for each in column_to_numpy(column)]
        return pa.chunked_array([pa.array(arrays, wants)])
    return column


def with_one_kind_of_tensors(tables: list[pa.Table]) -> list[pa.Table]:
    """Tables in which a column's arrays have one type, though a call that saw one shape gave it."""
    kinds: dict[str, set[pa.DataType]] = {}
    for each in chain.from_iterable(table.schema for table in tables):
        kinds.setdefault(each.name, set()).add(each.type)
    for name, found in kinds.items():
        if len(found) > 1 and all(is_deep(each) and not has_words(each) for each in found):
            tables = [with_tensors(each, name) for each in tables]
    return tables


def has_words(kind: pa.DataType) -> bool:
    """Whether arrays of one shape hold texts and the like, which are Python's objects to NumPy."""
    while is_any_list(kind) or isinstance(kind, pa.FixedShapeTensorType):
        kind = kind.value_type
    return not (is_tensor(kind) or pa.types.is_primitive(kind))


def with_tensors(rows: pa.Table, name: str) -> pa.Table:
    """Rows whose arrays of a column may differ in shape."""
    if name not in rows.column_names:
        return rows
    tensors, at = tensors_of(rows[name]), rows.column_names.index(name)
    return rows.set_column(at, rows.schema.field(at).with_type(tensors.type), tensors)
