"""Objects as columns of a table and back, some at a time: there may be millions of them."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

import pyarrow as pa

T = TypeVar("T")
OBJECTS_AT_A_TIME = 65_536


def table_of(objects: Iterable[object], schema: pa.Schema) -> pa.Table:
    """The objects' fields that the schema names."""
    rest, batches = iter(objects), []
    while some := list(islice(rest, OBJECTS_AT_A_TIME)):
        columns = [
            pa.array([getattr(each, field.name) for each in some], field.type) for field in schema
        ]
        batches.append(pa.record_batch(columns, schema=schema))
    return pa.Table.from_batches(batches, schema)


def objects_of(table: pa.Table, make: Callable[..., T]) -> Iterator[T]:
    """What each row of a table makes, with its columns as arguments in their order."""
    for some in table.to_batches(OBJECTS_AT_A_TIME):
        yield from map(make, *(column.to_pylist() for column in some.columns))
