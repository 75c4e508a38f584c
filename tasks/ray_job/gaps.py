"""Rows with an empty value, NaN or infinity: where a batch fails, they are the first to look at.

To halve it until each guilty row is alone takes some fifteen calls a row; apart from the others,
where most of them are guilty, three.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.protocol.batch import ROW
from tasks.protocol.ids import Ids, Mask, are_in, distinct


def apart(rows: pa.Table) -> list[pa.Table]:
    """Rows without gaps, and those with one; nothing where all rows are of one sort.

    The children of one row stay together.
    """
    ids = rows[ROW].to_numpy()
    odd = are_in(distinct(ids[have_gaps(rows)]), ids)
    return [rows.filter(pa.array(each)) for each in (~odd, odd)] if 0 < odd.sum() < len(odd) else []


def have_gaps(rows: pa.Table) -> Mask:
    """Which rows have a gap in a column."""
    found = np.zeros(len(rows), dtype=bool)
    for column in rows.columns:
        if column.null_count:
            found |= column.is_null().to_numpy()
        if pa.types.is_floating(column.type):
            found |= ~pc.is_finite(column).fill_null(True).to_numpy()
    return found


def in_order(returned: pa.Table, given: Ids) -> pa.Table:
    """Rows that came back from several calls, as their ids were given."""
    order = np.argsort(given, kind="stable")
    places = order[np.searchsorted(given, returned[ROW].to_numpy(), sorter=order)]
    return returned.take(pa.array(np.argsort(places, kind="stable")))
