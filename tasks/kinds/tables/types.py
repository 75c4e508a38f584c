"""Arrow's types as tables have them, and schemas that must fit each other."""

from typing import Any

import pyarrow as pa

from tasks.errors import InvalidSpec, SchemaMismatch
from tasks.kinds.column_types import inner, is_any_list, is_list
from tasks.kinds.likest import did_you_mean

WIDER = {
    **dict.fromkeys((pa.int8(), pa.uint8(), pa.int16(), pa.uint16()), pa.int32()),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}
"""Numbers that not every format has, in the next larger type that all have."""
NARROW = (pa.int8(), pa.int16())
UNKNOWN = (
    pa.types.is_time,
    pa.types.is_duration,
    pa.types.is_interval,
    pa.types.is_union,
    pa.types.is_null,  # the items of lists that are all empty
    pa.types.is_decimal32,
    pa.types.is_decimal64,
    pa.types.is_decimal256,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
    pa.types.is_run_end_encoded,
)
PARTITION = (pa.types.is_string, pa.types.is_integer, pa.types.is_date32, pa.types.is_boolean)
ORDERED = (*PARTITION, pa.types.is_timestamp, pa.types.is_decimal, pa.types.is_floating)
KEY = (*PARTITION, pa.types.is_timestamp, pa.types.is_decimal, pa.types.is_binary)
NO_FOLDER = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_struct,
    pa.types.is_map,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)


def plain(kind: pa.DataType) -> pa.DataType:
    """A type as tables of Parquet files have it: lists have no fixed size, numbers have signs."""
    if is_any_list(kind):
        return pa.list_(plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(plain(each.type)) for each in kind.fields])
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    return plain_leaf(kind)


def plain_leaf(kind: pa.DataType) -> pa.DataType:
    """A type that is no list, struct or map."""
    if isinstance(kind, pa.BaseExtensionType):  # such as tensors
        return plain(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if kind in (pa.large_binary(), pa.binary_view()) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    if pa.types.is_date64(kind):
        return pa.date32()
    return WIDER.get(kind, kind)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """A schema as tables of Parquet files have it.

    Raises:
        SchemaMismatch: names the columns that no table can hold.
    """
    bad = {each.name: str(each.type) for each in schema if any(map(is_unknown, inner(each.type)))}
    if bad:
        raise SchemaMismatch(
            f"tables cannot hold columns of these types: {bad}; make them text or numbers in a "
            "step, or leave them out with sink.keep_columns"
        )
    return pa.schema([pa.field(each.name, plain(each.type)) for each in schema])


def refuse_empty_objects(schema: pa.Schema) -> None:
    """See that no column holds objects without any key, as many JSON files have: {}.

    Parquet has none, and beside them Lance's files give other columns other values.

    Raises:
        SchemaMismatch: names the columns that do.
    """
    bad = [each.name for each in schema if any(map(is_empty_object, inner(each.type)))]
    if bad:
        raise SchemaMismatch(
            f"the columns {bad} contain objects without keys, which this sink cannot store: leave "
            "them out with sink.keep_columns"
        )


def is_empty_object(kind: pa.DataType) -> bool:
    """Whether values are objects without any key."""
    return bool(pa.types.is_struct(kind)) and not kind.num_fields


def is_unknown(kind: pa.DataType) -> bool:
    """Whether no table has such values."""
    return is_empty_object(kind) or any(check(kind) for check in UNKNOWN)


def check_partition_types(schema: pa.Schema, by: list[str]) -> None:
    """See that partition columns are of types whose values every reader spells alike.

    Raises:
        InvalidSpec: names the columns and their types.
    """
    bad = of_other_types(schema, by, PARTITION)
    if bad:
        problem = (
            "cannot partition a table: use columns of text, whole numbers, dates or true/false"
        )
        raise InvalidSpec.at("sink.partition_by", bad, problem)


def check_folder_types(schema: pa.Schema, by: list[str]) -> None:
    """See that each value of the partition columns can be the name of a folder.

    Raises:
        InvalidSpec: names the columns and their types.
    """
    types = {name: schema.field(name).type for name in by if name in schema.names}
    bad = {name: str(each) for name, each in types.items() if is_no_folder(each)}
    if bad:
        problem = "cannot be folders: use columns of text, numbers, dates, times or true/false"
        raise InvalidSpec.at("sink.partition_by", bad, problem)


def is_no_folder(kind: pa.DataType) -> bool:
    """Whether values of a type are no names of folders."""
    return isinstance(kind, pa.BaseExtensionType) or any(check(kind) for check in NO_FOLDER)


def check_key(schema: pa.Schema, key: list[str]) -> None:
    """See that rows have a key whose values can be told to be equal.

    Raises:
        InvalidSpec: names the columns that are not there, or of types that do not do.
    """
    missing = [name for name in key if name not in schema.names]
    if missing:
        problem = f"are not among {schema.names}; add them to sink.keep_columns"
        problem += did_you_mean(missing[0], schema.names)
        raise InvalidSpec.at("sink.key", missing, problem)
    bad = of_other_types(schema, key, KEY)
    if bad:
        problem = "cannot identify a row: use columns of text, whole numbers, dates, times or bytes"
        raise InvalidSpec.at("sink.key", bad, problem)


def check_order(schema: pa.Schema, newest_by: str | None) -> None:
    """See that the values of a column are earlier or later than each other.

    Raises:
        InvalidSpec: it is not there, or of a type that does not do.
    """
    if newest_by is None:
        return
    if newest_by not in schema.names:
        problem = f"is not among {schema.names}; add it to sink.keep_columns"
        problem += did_you_mean(newest_by, schema.names)
        raise InvalidSpec.at("sink.newest_by", newest_by, problem)
    if bad := of_other_types(schema, [newest_by], ORDERED):
        problem = "cannot be ordered: use a column of times, dates, numbers or text"
        raise InvalidSpec.at("sink.newest_by", bad, problem)


def comparable(kind: pa.DataType) -> pa.DataType:
    """A type as values are compared: as tables have it, but no time loses its nanoseconds."""
    return kind if pa.types.is_timestamp(kind) else plain(kind)


def of_other_types(schema: pa.Schema, names: list[str], checks: tuple[Any, ...]) -> dict[str, str]:
    """Those of some columns that are of none of these types, with their own."""
    there = [name for name in names if name in schema.names]
    kinds = {name: comparable(schema.field(name).type) for name in there}
    return {name: str(kind) for name, kind in kinds.items() if not any(c(kind) for c in checks)}


def check_fit(place: str, wanted: pa.Schema, there: pa.Schema, *, evolve: bool) -> None:
    """See that rows fit a table.

    Args:
        place: of the table.
        wanted: the rows' schema, in the table's types.
        there: the table's.
        evolve: whether columns may be added.

    Raises:
        InvalidSpec: names the columns, and the way out.
    """
    known = {each.name: each for each in there}
    both = [(each, known[each.name]) for each in wanted if each.name in known]
    other = [
        f"{ours.name} is {theirs.type} there and {ours.type} here"
        for ours, theirs in both
        if not alike(ours.type, theirs.type)
    ]
    needed = [e.name for e in there if not e.nullable and e.name not in wanted.names]
    if other or needed:
        problem = f"is a table with other columns: {'; '.join(other)}"
        problem += f"; {needed} must have values there" if needed else ""
        raise InvalidSpec.at(
            "sink.path",
            place,
            f"{problem}: cast or rename them with sink.types or a step (then --replace-output "
            "makes the published rows again), or use another path",
        )
    new = [name for name in wanted.names if name not in known]
    if new and not evolve:
        problem = (
            f"is a table without the columns {new}: set sink.evolve_schema: true to add them, "
            "leave them out with sink.keep_columns, or use another path"
        )
        raise InvalidSpec.at("sink.path", place, problem)


def as_narrow(stored: pa.Schema, given: pa.Schema, there: pa.Schema) -> pa.Schema:
    """A schema in a table's types, with whole numbers as narrow as both rows and table have them.

    Delta has such numbers; a table that is made here has wider ones.
    """
    known = {each.name: each.type for each in there}
    given_types = {each.name: each.type for each in given if each.type in NARROW}
    narrow = dict(given_types.items() & known.items())
    return pa.schema([each.with_type(narrow.get(each.name, each.type)) for each in stored])


def as_held(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Rows in a table's types.

    Raises:
        pyarrow.ArrowInvalid: a value has no place in its column's; names the column.
    """
    held: list[pa.ChunkedArray] = []
    for at, each in enumerate(wanted):
        given = pa.table([rows.column(at)], pa.schema([rows.schema.field(at)]))
        try:
            held += given.cast(pa.schema([each])).columns
        except (ValueError, pa.ArrowNotImplementedError) as error:
            raise pa.ArrowInvalid(f"column {each.name!r}: {error}") from error
    return pa.table(held, schema=wanted)


def as_strict(schema: pa.Schema, there: pa.Schema) -> pa.Schema:
    """A schema whose values must be there wherever a table's must, within lists and structs too."""
    known = {each.name: each for each in there}
    return pa.schema([strict_field(each, known.get(each.name, each)) for each in schema])


def strict_field(ours: pa.Field, theirs: pa.Field) -> pa.Field:
    """A field whose values must be there where either's must."""
    kind, nullable = strict_type(ours.type, theirs.type), ours.nullable and theirs.nullable
    return ours.with_type(kind).with_nullable(nullable)


def strict_type(ours: pa.DataType, theirs: pa.DataType) -> pa.DataType:
    """A type, with what the other of the same form says of the values within."""
    if is_list(ours) and is_list(theirs):
        return pa.list_(strict_field(ours.value_field, theirs.value_field))
    if pa.types.is_struct(ours) and pa.types.is_struct(theirs):
        return pa.struct(list(map(strict_field, ours.fields, theirs.fields)))
    if pa.types.is_map(ours) and pa.types.is_map(theirs):
        return pa.map_(ours.key_field, strict_field(ours.item_field, theirs.item_field))
    return ours


def alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two types are the same, whatever the items of a list are called."""
    if pa.types.is_list(one) and pa.types.is_list(other):
        return alike(one.value_type, other.value_type)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        names = [each.name for each in one.fields] == [each.name for each in other.fields]
        return names and all(map(alike, *([e.type for e in k.fields] for k in (one, other))))
    if pa.types.is_map(one) and pa.types.is_map(other):
        return alike(one.key_type, other.key_type) and alike(one.item_type, other.item_type)
    return bool(one == other)
