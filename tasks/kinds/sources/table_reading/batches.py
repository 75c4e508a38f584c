"""How many rows of a table come at a time, and of which types."""

import pyarrow as pa

from tasks.kinds.sources.source import (
    BYTES_OF_NUMBER,
    BYTES_PER_READ,
    NUMBERS_PER_READ,
    ROWS_PER_READ,
)


def rows_at_once(schema: pa.Schema, names: list[str]) -> int:
    """Rows that a read may have: of numbers it is certain how much memory they take."""
    types = [schema.field(name).type for name in names]
    if not types or not all(map(is_small_number, types)):
        return ROWS_PER_READ
    return max(1, min(NUMBERS_PER_READ, BYTES_PER_READ // (BYTES_OF_NUMBER * len(types))))


def is_small_number(kind: pa.DataType) -> bool:
    """Whether a value takes at most eight bytes."""
    return pa.types.is_primitive(kind) and kind.bit_width <= 8 * BYTES_OF_NUMBER


def plain(kind: pa.DataType) -> pa.DataType:
    """A type as other sources give it: without dictionaries, views and 64-bit offsets."""
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(plain(kind.value_type), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, plain(each.type)) for each in kind])
    return kind
