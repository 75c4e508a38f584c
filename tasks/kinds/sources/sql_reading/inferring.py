"""Types of a database's columns, by what values there are, else by what the database says."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from tasks.kinds.column_types import text_for_none
from tasks.kinds.sources.sql_reading import arrow
from tasks.kinds.sources.sql_reading.database import Database
from tasks.kinds.sources.sql_reading.dialects import types_tell

VALUES_TO_INFER = 100
"""Few, where a column has hardly any: to find more, the database would look at all rows."""
Types = dict[str, pa.DataType]


def inferred(database: Database, paths: Sequence[str], names: Sequence[str]) -> pa.Schema:
    """Names and types of columns; text where a column has no value in any row, nor a known type.

    Args:
        database: to read from.
        paths: of some of its ranges, in order; where there are none, no row is read.
        names: of the columns.

    Raises:
        InvalidSpec: there is no such column.
        TypeError: a column has values that no Arrow type holds, or several types; names it.
        ConnectionError: the database does not answer.
    """
    types = of_first_rows(database, paths, names)
    if unknown := without_type(types):
        types = merged(types, declared(database, unknown))
    if paths and (unknown := without_type(types)):
        types = merged(types, of_first_values(database, unknown))
    found = (text_for_none(pa.field(name, of)) for name, of in types.items())
    return pa.schema([each.with_type(arrow.settled(each.type)) for each in found])


def without_type(types: Types) -> list[str]:
    """Columns of which no value has told what its values are."""
    return [name for name, of in types.items() if not arrow.is_known(of)]


def merged(old: Types, new: Types) -> Types:
    """Types, by others where they are not known; that of a list within may still be unknown."""
    better = {
        name: of
        for name, of in new.items()
        if not arrow.is_known(old[name]) and not pa.types.is_null(of)
    }
    return old | better


def types_of(names: Sequence[str], rows: Sequence[arrow.Row]) -> Types:
    """Types of some rows' columns; see arrow.schema_of."""
    return dict(zip(names, arrow.schema_of(names, rows).types, strict=True))


def of_first_rows(database: Database, paths: Sequence[str], names: Sequence[str]) -> Types:
    """Types of the first rows of some ranges."""
    types = dict.fromkeys(names, pa.null())
    for path in paths:
        with closing(database.read(path, names)) as reads:
            types = merged(types, types_of(names, next(reads, [])))
        if not without_type(types):
            break
    return types


def declared(database: Database, names: Sequence[str]) -> Types:
    """Types that a table or view has for its columns; null where they do not tell.

    They cost no look at the rows, and hold for the values that later runs bring, too.
    """
    if not types_tell(database.engine.dialect.name):
        return {}
    return {name: arrow_type(database.column("columns", name).type) for name in names}


def arrow_type(of: Any) -> pa.DataType:
    """What values of a column's type would be found to be; null where only they tell.

    Not told are the places of numbers that may have any, what arrays hold, and rare types. Columns
    of a query have no type at all.
    """
    from sqlalchemy import types

    match of:
        case types.Boolean():
            return pa.bool_()
        case types.Integer():
            return pa.int64()
        case types.Numeric(asdecimal=False):  # which floats are, too
            return pa.float64()
        case types.Numeric(scale=int(places)):
            return arrow.decimals(places)
        case types.Date():
            return pa.date32()
        case types.DateTime(timezone=has_zone):
            return pa.timestamp("us", "UTC" if has_zone else None)
        case types.Time(timezone=False):
            return pa.time64("us")
        case types.LargeBinary():
            return pa.binary()
        case types.String() | types.Uuid() | types.JSON() | types.Time():
            return pa.string()
    return pa.null()


def of_first_values(database: Database, names: Sequence[str]) -> Types:
    """Types of the first values of columns, wherever their rows are.

    A row may tell of several columns, and one look at all rows tells that none of those left has
    any: it costs no more than the listing, which looks at all rows for each plan.
    """
    types: Types = {}
    left = list(names)
    while left and (rows := database.with_values(left, VALUES_TO_INFER)):
        types |= types_of(left, rows)
        columns = zip(left, zip(*rows, strict=True), strict=True)
        # Not those without a type: what no driver can read, or an empty list, has none.
        left = [name for name, values in columns if all(value is None for value in values)]
    return types
