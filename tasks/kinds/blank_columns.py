"""Columns that came to an output after rows were written, which have nothing in them."""

from collections.abc import Iterable

import pyarrow as pa


def with_blanks(rows: pa.Table, columns: Iterable[pa.Field]) -> pa.Table:
    """Rows with those of these columns that they lack, without a value."""
    there = {*rows.column_names}
    for each in columns:
        if each.name not in there:
            rows = rows.append_column(each, pa.nulls(len(rows), each.type))
    return rows
