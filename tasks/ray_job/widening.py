"""Types that also take rows which came later: whole numbers and then fractions, more fields."""

import pyarrow as pa

from tasks.kinds import lossless
from tasks.kinds.column_types import NO_VALUE, has_null, is_any_list, is_deep
from tasks.kinds.mixed_tensors import has_words, held_as
from tasks.kinds.tensors import is_tensor
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
    if is_tensor(values.type) and is_deep(field.type) and not has_words(field.type):
        return field.with_type(values.type)
    both = [pa.schema([(field.name, kind)]) for kind in (field.type, values.type)]
    try:
        kind = pa.unify_schemas(both, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return field
    if not stays(field.type, kind) or not fits(values, kind):
        return field
    is_new = is_untyped(field) or has_null(kind)
    return pa.field(field.name, kind, metadata=NO_VALUE if is_new else field.metadata)


def fits(values: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Whether values become a type without loss."""
    try:
        lossless.cast(held_as(values, kind), kind)
    except (ValueError, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return False
    return True


def stays(has: pa.DataType, wants: pa.DataType) -> bool:
    """Whether values stay what they are: no text becomes bytes, and no exact number a float."""
    if pa.types.is_struct(has) and pa.types.is_struct(wants):
        return all(stays(each.type, wants.field(each.name).type) for each in has)
    if pa.types.is_map(has) and pa.types.is_map(wants):
        return stays(has.key_type, wants.key_type) and stays(has.item_type, wants.item_type)
    if is_any_list(has) and is_any_list(wants):
        return stays(has.value_type, wants.value_type)
    if pa.types.is_decimal(has) and pa.types.is_floating(wants):
        return False
    return has == wants or lossless.family(has) == lossless.family(wants) is not None
