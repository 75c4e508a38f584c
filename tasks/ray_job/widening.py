"""Types that also take rows which came later: whole numbers and then fractions, more fields."""

import pyarrow as pa

from tasks.kinds import lossless
from tasks.kinds.column_types import NO_VALUE, has_null, inner
from tasks.ray_job.untyped import is_untyped


def widened(schema: pa.Schema, rows: pa.Table) -> pa.Schema | None:
    """A schema that takes rows which do not fit it; None where they do, or Arrow knows none.

    A column stays as it is where its values fit, though they come as another type.

    Args:
        schema: of the output.
        rows: with the same columns, or others: they are not looked at.
    """
    has = set(rows.column_names)
    fields = [wider(each, rows[each.name]) if each.name in has else each for each in schema]
    found = pa.schema(fields, schema.metadata)
    return None if found.equals(schema) else found


def wider(field: pa.Field, values: pa.ChunkedArray) -> pa.Field:
    """A column as one that takes these values too; as it is where nothing does."""
    if fits(values, field.type):
        return field
    both = [pa.schema([(field.name, kind)]) for kind in (field.type, values.type)]
    try:
        kind = pa.unify_schemas(both, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return field
    keeps = lossless.keeps_values(field.type, kind, all_fields=True)
    if not keeps or has_decimal(field.type) > has_decimal(kind) or not fits(values, kind):
        return field
    is_new = is_untyped(field) or has_null(kind)
    return pa.field(field.name, kind, metadata=NO_VALUE if is_new else field.metadata)


def fits(values: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Whether values become a type without loss."""
    try:
        lossless.cast(values, kind)
    except (ValueError, pa.ArrowNotImplementedError):
        return False
    return True


def has_decimal(kind: pa.DataType) -> bool:
    """Whether there are exact numbers, which no float is."""
    return any(map(pa.types.is_decimal, inner(kind)))
