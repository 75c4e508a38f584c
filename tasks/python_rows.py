"""Rows as Python's values, for people to read."""

from typing import Any

import pyarrow as pa

UNKNOWN = (OverflowError, ValueError, LookupError)
"""What Arrow raises for values that Python has not; the last for names of timezones."""


def python_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows as dicts; what Python has no value for, such as a time in the year 10000, as text."""
    try:
        return rows.to_pylist()
    except UNKNOWN:
        columns = {name: python_values(rows[name]) for name in rows.column_names}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """The same of one column."""
    try:
        return column.to_pylist()
    except UNKNOWN:
        return list(map(value_of, column))


def value_of(scalar: pa.Scalar) -> Any:
    """One value."""
    try:
        return scalar.as_py()
    except UNKNOWN:
        return f"{getattr(scalar, 'value', 'a value')} as {scalar.type}"
