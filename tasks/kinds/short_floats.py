"""Single floats as a person would write them."""

import pyarrow as pa

from tasks.kinds.column_types import inner


def short_floats(rows: pa.Table) -> pa.Table:
    """Single floats as the doubles that a person would write for them: 0.1, not 0.100000001."""
    for at, each in enumerate(rows.schema):
        if pa.float32() in inner(each.type):
            values = rows[at].cast(with_floats(each.type, pa.float32()))  # Arrow needs them bare
            text = values.cast(with_floats(each.type, pa.string()))
            rows = rows.set_column(at, each.name, text.cast(with_floats(each.type, pa.float64())))
    return rows


def with_floats(kind: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """A type with another one for single floats, at any depth, and without dictionaries.

    A struct's field without a type becomes text: of rows that begin within an array, Arrow's cast
    of it to none again reads beyond the end, or ends the process.
    """
    if kind == pa.float32():
        return wanted
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_dictionary(kind):
        return with_floats(kind.value_type, wanted)
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, with_floats(each.type, wanted)) for each in kind.fields])
    if pa.types.is_map(kind):
        return pa.map_(with_floats(kind.key_type, wanted), with_floats(kind.item_type, wanted))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(with_floats(kind.value_type, wanted), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(with_floats(kind.value_type, wanted))
    if pa.types.is_list(kind):
        return pa.list_(with_floats(kind.value_type, wanted))
    return kind
