"""NaN and infinity where they stand for no value, as null does."""

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def null_for_nan(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column with null in the place of NaN; of one that numbers stand for, its values."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)


def finite(value: Any) -> Any:
    """A value of JSON with null for what is no number."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return value
