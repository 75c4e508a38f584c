"""Columns that files lack, as those that came to an output after rows were written."""

from collections.abc import Container, Iterable

import pyarrow as pa


def with_blanks(rows: pa.Table, columns: Iterable[pa.Field]) -> pa.Table:
    """Rows with those of these columns that they lack, without a value."""
    there = {*rows.column_names}
    for each in columns:
        if each.name not in there:
            rows = rows.append_column(each, pa.nulls(len(rows), each.type))
    return rows


def refuse_lacking(there: Container[str], names: Iterable[str]) -> None:
    """See that a file has some columns.

    Raises:
        ArrowKeyError: names one that it has not.
    """
    for name in names:
        if name not in there:
            raise pa.ArrowKeyError(f"it has no column {name!r}")
