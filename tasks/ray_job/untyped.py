"""Columns without a value in the rows that came first: taken for text until a type is known.

Of a list that was always empty, or a struct's field that never had a value, the same holds within.
"""

import pyarrow as pa

from tasks.kinds.column_types import NO_VALUE, inner, is_any_list, is_text
from tasks.kinds.lossless import family


def with_types(schema: pa.Schema, rows: pa.Table) -> pa.Schema | None:
    """A schema with the types that rows tell and that it does not know; None where they tell none.

    Args:
        schema: of the output.
        rows: with the same columns, or others: they are not looked at.
    """
    has = {each.name: each.type for each in rows.schema}
    fields = [
        typed(each, has[each.name]) if is_untyped(each) and each.name in has else each
        for each in schema
    ]
    found = pa.schema(fields, schema.metadata)
    return None if found.equals(schema) else found


def typed(field: pa.Field, has: pa.DataType) -> pa.Field:
    """A column of text, for want of a type, as what it has turned out to be."""
    kind = merged(field.type, has)
    return pa.field(field.name, kind, metadata=NO_VALUE if has_text(kind) else None)


def merged(wants: pa.DataType, has: pa.DataType) -> pa.DataType:
    """A type whose texts are what another one has in their place; as it is where that is null."""
    if pa.types.is_null(has):
        return wants
    if is_text(wants):
        return wants if family(has) == "text" else has
    if is_any_list(wants) and is_any_list(has):
        value = merged(wants.value_type, has.value_type)
        size = wants.list_size if pa.types.is_fixed_size_list(wants) else -1
        return wants if value == wants.value_type else pa.list_(value, size)
    if pa.types.is_map(wants) and pa.types.is_map(has):
        return pa.map_(merged(wants.key_type, has.key_type), merged(wants.item_type, has.item_type))
    if pa.types.is_struct(wants) and pa.types.is_struct(has):
        types = {each.name: each.type for each in has}
        return pa.struct([e.with_type(merged(e.type, types.get(e.name, pa.null()))) for e in wants])
    return wants


def still_untyped(schema: pa.Schema, known: pa.Schema) -> pa.Schema:
    """A schema that a sink made of another, with what it knows to be without a type."""
    names = {each.name for each in known if is_untyped(each)}
    return pa.schema([e.with_metadata(NO_VALUE) if e.name in names else e for e in schema])


def has_text(kind: pa.DataType) -> bool:
    """Whether a type is text, or has some within."""
    return any(map(is_text, inner(kind)))


def is_untyped(field: pa.Field) -> bool:
    """Whether a column had no value, or lacked one within, when the first rows came."""
    return bool(field.metadata == NO_VALUE)
