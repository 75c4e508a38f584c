"""Types of JSON values, and for those of several lines at once."""

import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial, reduce
from itertools import chain, groupby, islice
from typing import Any

import pyarrow as pa

from tasks.kinds.column_types import completed
from tasks.kinds.sources.compressed import DamagedFile
from tasks.kinds.sources.doubles import whole_number
from tasks.kinds.sources.files_to_ask import new_among
from tasks.kinds.sources.json_misfits import is_beyond
from tasks.kinds.sources.text import BOM, MOST_COLUMNS, blocks, universal, whole_lines
from tasks.protocol.asked_at_once import fetched
from tasks.protocol.object_stat import Stat
from tasks.protocol.storage import FsspecStorage

ROWS_OF_OTHERS = 100
"""Of each of several files, where all columns are wanted that any has."""
READERS = 16
DEEPEST = 32
"""Objects and lists within each other; Arrow and Parquet do not hold many more."""
TOO_DEEP = f"it is nested more than {DEEPEST} levels deep"
NUMBERS = {each.id for each in (pa.int64(), pa.uint64(), pa.float64())}
PLAIN = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
load = partial(json.loads, parse_int=whole_number)


def merged(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """A type for the values of both; where there is none, the first."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if one.id in NUMBERS and other.id in NUMBERS:
        return pa.float64() if pa.float64() in (one, other) else pa.uint64()
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(merged(one.value_type, other.value_type))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return merged_objects([one, other])
    return one


def merged_objects(objects: Iterable[pa.DataType]) -> pa.DataType:
    """A type for all of several objects, made once: it takes long where they have many keys."""
    types: dict[str, pa.DataType] = {}
    for field in chain.from_iterable(kind for kind, _ in groupby(objects)):
        known = types.get(field.name)
        types[field.name] = field.type if known is None else merged(known, field.type)
    return pa.struct([*types.items()])


def extended(known: pa.DataType, other: pa.DataType) -> pa.DataType:
    """A type of objects with the keys that others bring, and theirs where nobody knows one yet.

    What is known stays as it is: rows may be published with it.
    """
    theirs = {each.name: each.type for each in other}
    types = {each.name: completed(each.type, theirs.get(each.name, pa.null())) for each in known}
    return pa.struct([*types.items(), *((n, theirs[n]) for n in new_among(theirs, types))])


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


def object_types(
    storage: FsspecStorage, stats: Iterable[Stat]
) -> Generator[pa.DataType, None, None]:
    """The types of files' objects, one by one; bad lines are left to reading."""
    for stat in stats:
        with storage.open(stat.path) as file, suppress(DamagedFile):
            for block in whole_lines(universal(blocks(file, stat.path))):
                yield from filter(pa.types.is_struct, map(line_type, block.split(b"\n")))


def types_of_first(
    storage: FsspecStorage, inputs: Sequence[Stat], num_rows: int
) -> Iterator[pa.DataType]:
    """The types of the first so many objects; files behind the first one are read side by side.

    Many have one object each, and each takes a store's answers.
    """

    def of_file(stat: Stat) -> list[pa.DataType]:
        with closing(object_types(storage, [stat])) as found:
            return [*islice(found, num_rows)]

    each = chain(map(of_file, inputs[:1]), fetched(of_file, inputs[1:], READERS))
    return islice(chain.from_iterable(each), num_rows)


def types_of_others(storage: FsspecStorage, stats: Iterable[Stat]) -> Iterator[pa.DataType]:
    """A type for the first objects of each file that is there still."""
    for stat in stats:
        with suppress(FileNotFoundError), closing(object_types(storage, [stat])) as found:
            yield merged_objects(islice(found, ROWS_OF_OTHERS))


def line_type(line: bytes) -> pa.DataType:
    """The type of a line's value; null where it is not JSON, or no row."""
    try:
        return type_of(load(line.removeprefix(BOM).decode()))
    except (ValueError, RecursionError):
        return pa.null()


def type_of(value: Any, depth: int = 0) -> pa.DataType:
    """The Arrow type of a JSON value.

    Raises:
        ValueError: it is nested too deep, or has too many keys.
    """
    if depth > DEEPEST:
        raise ValueError(TOO_DEEP)
    if isinstance(value, dict):
        if len(value) > MOST_COLUMNS:
            raise ValueError(f"it has {len(value):,} keys; at most {MOST_COLUMNS:,} are read")
        return pa.struct([(key, type_of(each, depth + 1)) for key, each in value.items()])
    if isinstance(value, list):
        if {*map(type, value)} == {float}:  # as in an embedding, of many
            return pa.list_(pa.float64())
        types = (type_of(each, depth + 1) for each in value)
        return pa.list_(reduce(merged, types, pa.null()))
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return pa.null() if is_beyond(value) else pa.uint64()  # doubles would round the others too
    return PLAIN.get(type(value), pa.null())
