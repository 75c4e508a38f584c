"""Rows as files of the sink, where its format has a form for them."""

import pyarrow as pa

from tasks.errors import SchemaMismatch
from tasks.kinds.sinks import AnySink
from tasks.protocol.ids import Ids
from tasks.protocol.records import Part

FORMLESS = (ValueError, OverflowError, RuntimeError, pa.ArrowTypeError)
"""What formats raise of rows that they cannot hold, Arrow's and Lance's a RuntimeError of types
that they do not know; no attempt would bring others."""


def parts_of(sink: AnySink, rows: pa.Table, ids: Ids) -> list[Part]:
    """Rows as files to stage.

    Raises:
        SchemaMismatch: the format cannot hold them; names the columns.
    """
    try:
        return sink.parts(rows, ids)
    except FORMLESS as error:
        columns = {
            each.name: str(each.type)
            for each in rows.schema
            if not can_hold(sink, rows.select([each.name]))
        }
        raise SchemaMismatch(
            f"sink.kind {sink.kind} cannot store {columns}: {error}: give them another type or "
            "name in a step, leave them out with sink.keep_columns, or use another kind"
        ) from error


def can_hold(sink: AnySink, rows: pa.Table) -> bool:
    """Whether a sink's format has a form for rows."""
    try:
        sink.encode(rows)
    except FORMLESS:
        return False
    return True
