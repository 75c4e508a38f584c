"""Types for the values of several JSON lines at once."""

import pyarrow as pa


def merged(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """A type for the values of both; where there is none, the first."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if {one, other} <= {pa.int64(), pa.uint64(), pa.float64()}:
        return pa.float64() if pa.float64() in (one, other) else pa.uint64()
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(merged(one.value_type, other.value_type))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        types = {field.name: field.type for field in one.fields}
        for field in other.fields:
            types[field.name] = merged(types.get(field.name, pa.null()), field.type)
        return pa.struct(list(types.items()))
    return one


def settled(field: pa.Field) -> pa.Field:
    """The field with strings where only nulls were seen."""
    return field.with_type(settled_type(field.type))


def settled_type(found: pa.DataType) -> pa.DataType:
    """The type with strings where only nulls were seen."""
    if pa.types.is_null(found):
        return pa.string()
    if pa.types.is_list(found):
        return pa.list_(settled_type(found.value_type))
    if pa.types.is_struct(found):
        return pa.struct([settled(field) for field in found.fields])
    return found
