"""What a Delta table's log says of all rows of a file; a condition may rule the file out by it.

Not by deltalake 1.6: it takes a column of which the log tells no bounds for one that no value is
in, and rules out each file that has them for other columns only.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc

MILLISECOND = pa.scalar(1_000, pa.duration("us"))
"""By so much the last of a file's times may be later than its bound: writers cut it off there."""


def partition(line: Mapping[str, pa.Scalar], schema: pa.Schema) -> pc.Expression:
    """What is true of the partition columns, which are not in the file.

    Args:
        line: what the log says of the file.
        schema: of the table.
    """
    conditions = [
        pc.field(name) == value.cast(schema.field(name).type)
        if value.is_valid
        else pc.field(name).is_null()
        for name, value in line.get("partition", {}).items()
    ]
    return reduce(and_, conditions, pc.scalar(True))


def bounds(line: Mapping[str, pa.Scalar], names: Iterable[str]) -> pc.Expression:
    """What is true of some columns.

    Args:
        line: what the log says of the file.
        names: of the columns.
    """
    conditions = [each for name in names for each in bounds_of(line, name)]
    return reduce(and_, conditions, pc.scalar(True))


def bounds_of(line: Mapping[str, pa.Scalar], name: str) -> list[pc.Expression]:
    """What is true of a column; nothing where the log does not tell."""
    column, nulls = pc.field(name), told(line, "null_count", name)
    if nulls is not None and nulls == line["num_records"]:
        return [column.is_null()]
    low, high = told(line, "min", name), told(line, "max", name)
    if high is not None and pa.types.is_timestamp(high.type):
        high = pc.add_checked(high, MILLISECOND)
    found = [] if low is None else [column >= low]
    found += [] if high is None else [column <= high]
    if nulls is not None and nulls.as_py() == 0:
        return [*found, column.is_valid()]
    return [each | column.is_null() for each in found]


def told(line: Mapping[str, pa.Scalar], what: str, name: str) -> pa.Scalar | None:
    """What a line tells of a column; None where it does not, or of each field of a struct."""
    of_columns = line.get(what)
    value = of_columns[name] if of_columns is not None and name in of_columns else None
    is_known = value is not None and value.is_valid and not pa.types.is_struct(value.type)
    return value if is_known else None
