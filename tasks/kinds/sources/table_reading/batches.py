"""How many rows of a table come at a time."""

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
