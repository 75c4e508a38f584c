"""Values of a database as Arrow columns of pinned types."""

import json
import math
import uuid
from collections.abc import Iterator, Sequence
from datetime import time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tasks.counted import counted
from tasks.kinds.sources.source import BadRow, Read
from tasks.kinds.sources.sql_reading.unreadable import Unreadable

DECIMAL_DIGITS = 38
WAY_OUT = "cast the column in source.query"
Row = tuple[Any, ...]


def schema_of(names: Sequence[str], rows: Sequence[Row]) -> pa.Schema:
    """Names and types of some rows; a column without a value is of type null.

    Raises:
        TypeError: a column has values that no Arrow type holds, or several types; names it.
    """
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.schema(
        [(name, type_of(name, values)) for name, values in zip(names, columns, strict=True)]
    )


def type_of(name: str, values: Sequence[Any]) -> pa.DataType:
    """The type of a column's values, as far as these can be read.

    Raises:
        TypeError: there is none.
    """
    present = [each for each in values if each is not None and not isinstance(each, Unreadable)]
    if present and all(isinstance(value, list) for value in present):
        return pa.list_(type_of(name, [each for value in present for each in value]))
    if present and all(isinstance(value, Decimal) for value in present):
        scales = [-value.as_tuple().exponent for value in present if value.is_finite()]
        return decimals(max(scales, default=0))
    try:
        return pa.array([plain(value) for value in present]).type
    except (ValueError, TypeError, OverflowError) as error:  # Arrow's own are of these
        problem = f"column {name!r} has values of more than one type ({error}): leave it out of "
        raise TypeError(problem + "source.columns, or cast it in source.query") from error


def decimals(places: int) -> pa.DataType:
    """Decimals with so many places; of as many digits as there can be: large ones may come later.

    Args:
        places: after the point; fewer than none where the last digits before it are always 0.
    """
    return pa.decimal128(DECIMAL_DIGITS, max(0, places))


def plain(value: Any) -> Any:
    """A value as Arrow takes it: UUIDs, objects and hours with a zone as text, in arrays too.

    Raises:
        ValueError: it could not be read.
    """
    if isinstance(value, Unreadable):
        raise ValueError(f"{value!r} cannot be read: {value.error}") from value.error
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, time) and value.tzinfo:
        return value.isoformat()  # Arrow's have none
    return json.dumps(value, default=str) if isinstance(value, dict) else value


def is_known(of: pa.DataType) -> bool:
    """Whether a type is one of values; of what is always empty none is known."""
    return is_known(of.value_type) if pa.types.is_list(of) else not pa.types.is_null(of)


def settled(of: pa.DataType) -> pa.DataType:
    """A type, text where none is known."""
    if pa.types.is_list(of):
        return pa.list_(settled(of.value_type))
    return of if is_known(of) else pa.string()


def conformed(rows: Sequence[Row], schema: pa.Schema) -> Iterator[Read]:
    """Rows as a table of the pinned types; those that do not fit are halved until alone."""
    try:
        arrays = [*map(column_of, schema, zip(*rows, strict=True))]
    except ValueError as error:
        if len(rows) == 1:
            yield BadRow(error, str(dict(zip(schema.names, rows[0], strict=True)))[:500])
            return
        yield from conformed(rows[: len(rows) // 2], schema)
        yield from conformed(rows[len(rows) // 2 :], schema)
        return
    yield pa.table(arrays, schema=schema)


def column_of(each: pa.Field, values: Sequence[Any]) -> pa.Array:
    """Values as a column of the pinned type.

    Raises:
        ValueError: one does not fit; names the column.
    """
    try:
        refuse_fractions(each.type, values)
        return pa.array([plain(value) for value in values], each.type)
    except (ValueError, TypeError, OverflowError) as error:  # Arrow's own are of these
        problem = f"column {each.name!r}: {error}"
        if pa.types.is_decimal(each.type):
            digits = counted(each.type.scale, "digit")
            problem += f"; the first rows have {digits} after the decimal point: {WAY_OUT}"
        raise ValueError(problem) from error


def refuse_fractions(wanted: pa.DataType, values: Sequence[Any]) -> None:
    """See that none is to become a whole number: Arrow would cut it off without a word.

    Raises:
        ValueError: one is.
        OverflowError: one is infinite.
    """
    if not pa.types.is_integer(wanted):
        return
    for value in values:
        if isinstance(value, float | Decimal) and value != math.trunc(value):
            raise ValueError(
                f"{value} is not a whole number, unlike those in the first rows: {WAY_OUT}"
            )
