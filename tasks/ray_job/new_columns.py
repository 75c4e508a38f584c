"""Columns that rows bring after others were written, for outputs that take them."""

import pyarrow as pa

from tasks.kinds.blank_columns import with_blanks
from tasks.kinds.column_types import has_no_value


def with_new(schema: pa.Schema, rows: pa.Schema) -> pa.Schema:
    """A schema with the columns it lacks; not with those of which no value has told a type."""
    there = {*schema.names}
    new = [each for each in rows if each.name not in there and not is_blank(each)]
    return pa.schema([*schema, *new], schema.metadata) if new else schema


def with_all(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with nothing in the columns they lack, and without blank ones that the schema lacks."""
    there = {*schema.names}
    blank = [each.name for each in rows.schema if is_blank(each) and each.name not in there]
    return with_blanks(rows.drop_columns(blank), schema)


def extends(schema: pa.Schema, other: pa.Schema) -> bool:
    """Whether a schema is another one, perhaps with columns behind it."""
    return pa.schema([*schema][: len(other)]).equals(pa.schema([*other]), check_metadata=True)


def is_blank(field: pa.Field) -> bool:
    """Whether no row has had a value of a column."""
    return bool(pa.types.is_null(field.type)) or has_no_value(field)
