"""NaN and infinity where they stand for no value, as null does."""

import math
from collections.abc import Callable
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


def no_value(value: float) -> None:
    """What JSON says of no number where only numbers are wanted: null."""


def finite(value: Any, said: Callable[[float], str | None] = no_value) -> Any:
    """A value of JSON, which has no NaN and no infinity.

    Args:
        value: the value.
        said: what stands for one of them; `json.dumps` their names, as texts, for people.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else said(value)
    if isinstance(value, dict):
        return {name: finite(each, said) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each, said) for each in value]
    return value
