"""Texts of many objects: all paths together may be more than 2 GiB."""

import pyarrow as pa

from tasks.protocol.ids import Ids

ROWS_AT_A_TIME = 1_048_576


def large(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts whose lengths may add up to any number; the texts themselves are not copied."""
    return texts.cast(pa.large_string())


def in_order(table: pa.Table, order: Ids) -> pa.Table:
    """A table's rows in another order; Arrow puts no more than 2 GiB of texts in one.

    Args:
        table: with texts among its columns.
        order: where each row stands in it.
    """
    fields = [
        field.with_type(pa.large_string()) if pa.types.is_string(field.type) else field
        for field in table.schema
    ]
    whole = table.cast(pa.schema(fields)).combine_chunks()
    starts = range(0, len(order), ROWS_AT_A_TIME)
    parts = (whole.take(pa.array(order[start : start + ROWS_AT_A_TIME])) for start in starts)
    return pa.concat_tables([table.slice(0, 0), *(part.cast(table.schema) for part in parts)])
