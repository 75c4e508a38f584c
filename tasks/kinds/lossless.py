"""Columns as another type, where every value stays what it is.

Arrow's own cast takes 00501 for 501, 2 for true, an hour of a day for the day, without a word.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.kinds.column_types import is_any_list, is_list, is_text

BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
FAMILIES = {
    "truth": (pa.types.is_boolean,),
    "number": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    "date": (pa.types.is_date,),
    "time": (pa.types.is_timestamp,),
    "hour": (pa.types.is_time,),
    "duration": (pa.types.is_duration,),
    "text": (is_text, pa.types.is_string_view),
    "bytes": (*BYTES, pa.types.is_fixed_size_binary),
}
MOST_DIGITS = 76
"""Of a decimal."""
BECOMES = {
    *(("truth", "number"), ("date", "time"), ("text", "bytes"), ("bytes", "text")),
    *((name, "text") for name in ("truth", "number", "date", "time", "hour", "duration")),
}
"""Families whose values the other one can hold; Arrow sees to it that bytes are a text."""


def cast(
    column: pa.ChunkedArray, wants: pa.DataType, *, all_fields: bool = True
) -> pa.ChunkedArray:
    """A column as another type; of a column without any value, nothing can be lost.

    Args:
        column: to be cast.
        wants: the type.
        all_fields: whether each field of a struct is wanted; else more than the type has are left
            out, as are columns that nobody asks for.

    Raises:
        pyarrow.ArrowInvalid: a value would not stay what it is.
        pyarrow.ArrowNotImplementedError: Arrow knows no way.
    """
    if column.type == wants:
        return column
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), wants)])
    keeps = partial(keeps_values, wants=wants, all_fields=all_fields)
    if not (keeps(column.type) or keeps(kind_of_values(column))):
        raise pa.ArrowInvalid(f"{column.type} cannot become {wants} without loss")
    if pa.types.is_integer(column.type) and pa.types.is_decimal(wants):
        # By itself Arrow wants room for all numbers of the type, whichever there are.
        column = column.cast(pa.decimal256(MOST_DIGITS, wants.scale))
    try:
        found = column.cast(wants)
    except pa.ArrowNotImplementedError:  # of text to objects, though there is no text
        chunks = [refilled(each, wants).cast(wants) for each in column.chunks]
        found = pa.chunked_array(chunks, wants)
    if infinities(found) > infinities(column):
        raise pa.ArrowInvalid(f"a value is too large for {wants}")
    return found


def kind_of_values(column: pa.ChunkedArray) -> pa.DataType:
    """A column's type, with null for what has no value, in lists and structs too.

    Sources that know types by values alone, such as JSON Lines, take that for text: lists that are
    all empty, a key that all objects lack.
    """
    kind = column.type
    if column.null_count == len(column):
        return pa.null()
    if is_any_list(kind):
        return pa.list_(kind_of_values(pc.list_flatten(column)))
    if pa.types.is_struct(kind):
        inside = [(each.name, pc.struct_field(column, each.name)) for each in kind]
        return pa.struct([(name, kind_of_values(values)) for name, values in inside])
    return kind


def refilled(values: pa.Array, wants: pa.DataType) -> pa.Array:
    """Values of which those without any, in lists and structs too, have the type that is wanted."""
    if values.null_count == len(values):
        return pa.nulls(len(values), wants)
    if is_list(values.type) and is_any_list(wants):
        inner = refilled(pc.list_flatten(values), wants.value_type)
        lengths = pc.fill_null(pc.list_value_length(values), 0)
        offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
        return pa.ListArray.from_arrays(offsets, inner, mask=values.is_null())
    if pa.types.is_struct(values.type) and pa.types.is_struct(wants):
        wanted = {each.name: each.type for each in wants}
        names = [each.name for each in values.type]
        inside = [pc.struct_field(values, name) for name in names]
        parts = [refilled(e, wanted.get(n, e.type)) for n, e in zip(names, inside, strict=True)]
        return pa.StructArray.from_arrays(parts, names, mask=values.is_null())
    return values


def keeps_values(has: pa.DataType, wants: pa.DataType, *, all_fields: bool) -> bool:
    """Whether values stay what they are, or Arrow's cast refuses those that would not.

    A number may be rounded to a float, and a time without a zone is one of UTC, as it is to Arrow.
    """
    keeps = partial(keeps_values, all_fields=all_fields)
    has, wants = bare(has), bare(wants)
    if has == wants or pa.types.is_null(has):
        return True
    if pa.types.is_map(has) and pa.types.is_map(wants):
        return keeps(has.key_type, wants.key_type) and keeps(has.item_type, wants.item_type)
    if is_any_list(has) and is_any_list(wants):
        return keeps(has.value_type, wants.value_type)
    if pa.types.is_struct(has) and pa.types.is_struct(wants):
        known = {each.name: each.type for each in wants}
        both = [each for each in has if each.name in known]
        is_whole = len(both) == has.num_fields or not all_fields
        return is_whole and all(keeps(each.type, known[each.name]) for each in both)
    if pa.types.is_floating(has) and pa.types.is_decimal(wants):
        return False  # Arrow would round it to the decimal's places
    ours, theirs = family(has), family(wants)
    return ours == theirs or (ours, theirs) in BECOMES


def bare(kind: pa.DataType) -> pa.DataType:
    """A type without its dictionary, or what an extension makes of it."""
    if pa.types.is_dictionary(kind):
        return bare(kind.value_type)
    return bare(kind.storage_type) if isinstance(kind, pa.BaseExtensionType) else kind


def family(kind: pa.DataType) -> str | None:
    """What a type's values are; None for those of types that stand alone."""
    return next((name for name, are in FAMILIES.items() if any(is_(kind) for is_ in are)), None)


def infinities(column: pa.ChunkedArray) -> int:
    """Values of a column, or in its lists and structs, that are infinite."""
    floats = (each for chunk in column.chunks for each in leaves(chunk) if is_float(each))
    return sum(pc.sum(pc.is_inf(each.cast(pa.float64()))).as_py() or 0 for each in floats)


def is_float(values: pa.Array) -> bool:
    """Whether some of the values may be infinite."""
    return bool(pa.types.is_floating(values.type))


def leaves(values: pa.Array) -> Iterator[pa.Array]:
    """Values that are no lists, structs or maps, or those within."""
    if isinstance(values, pa.ExtensionArray):
        yield from leaves(values.storage)
    elif pa.types.is_map(values.type):
        yield from (*leaves(values.keys), *leaves(values.items))
    elif is_any_list(values.type):
        yield from leaves(values.flatten())
    elif pa.types.is_struct(values.type):
        for each in values.flatten():
            yield from leaves(each)
    else:
        yield values
