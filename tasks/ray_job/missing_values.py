"""Rows in which a value is missing, NaN or infinite: where a batch fails, the first to look at.

To find a guilty row among many others takes ten calls or more; apart from these, where most are
guilty, two or three.
"""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.protocol.batch import ROW
from tasks.protocol.ids import Ids, Mask, are_in, distinct


def apart(rows: pa.Table) -> list[pa.Table]:
    """Rows with all their values, and those that lack one; nothing where all are of one sort.

    The children of one row stay together.
    """
    ids = rows[ROW].to_numpy()
    lacking = are_in(distinct(ids[lack_a_value(rows)]), ids)
    is_mixed = 0 < lacking.sum() < len(lacking)
    return [taken(rows, np.flatnonzero(each)) for each in (~lacking, lacking)] if is_mixed else []


def lack_a_value(rows: pa.Table) -> Mask:
    """Which rows lack a value in a column that is not all empty."""
    found = np.zeros(len(rows), dtype=bool)
    for column in rows.columns:
        if 0 < column.null_count < len(rows):
            found |= column.is_null().to_numpy()
        if pa.types.is_floating(column.type):
            found |= ~pc.is_finite(column).fill_null(True).to_numpy()
    return found


def in_order(returned: pa.Table, given: Ids) -> pa.Table:
    """Rows that came back from several calls, as their ids were given."""
    order = np.argsort(given, kind="stable")
    places = order[np.searchsorted(given, returned[ROW].to_numpy(), sorter=order)]
    return taken(returned, np.argsort(places, kind="stable"))


def taken(rows: pa.Table, places: Ids) -> pa.Table:
    """Rows at some places; of types that Arrow takes nothing from, such as views, in slices."""
    try:
        return rows.take(pa.array(places))
    except pa.ArrowNotImplementedError:
        bounds = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
        runs = [(int(places[start]), stop - start) for start, stop in pairwise(bounds)]
        return pa.concat_tables([rows.slice(*run) for run in runs])


def untyped(tables: list[pa.Table]) -> list[pa.Table]:
    """Tables whose columns without a value have no type, where others have more than floats.

    Pandas makes floats of such a column, whatever it would hold.
    """
    kinds = [each for table in tables for each in table.schema]
    others = {each.name for each in kinds if not pa.types.is_floating(each.type)}
    return [without_type(table, others) for table in tables]


def without_type(table: pa.Table, others: set[str]) -> pa.Table:
    """A table whose columns of nothing but empty floats are of no type, if they are among some."""
    for at, each in enumerate(table.schema):
        may_be = each.name in others and pa.types.is_floating(each.type)
        if may_be and pc.all(table[at].is_null(nan_is_null=True)).as_py():
            table = table.set_column(at, each.name, pa.nulls(len(table)))
    return table
