"""Which shards are the same in two plans, by columns: of ten million, objects take gigabytes."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.protocol.ids import Ids, Mask
from tasks.protocol.texts import large

PLACE_BITS = 32
WHOLE = -1
"""Where a shard starts that is a file, and so starts nowhere in it."""


def places_in(plan: pa.Table, shards: pa.Table) -> Ids:
    """Where in a plan each of some shards stands, by its content; -1 where it does not.

    Args:
        plan: shards of which no two start at the same place of a path.
        shards: of any plans.
    """
    if not len(plan):
        return np.full(len(shards), -1, dtype=np.int64)
    paths = large(plan["path"])
    known, asked = (place_keys(each, paths) for each in (plan, shards))
    order = np.argsort(known, kind="stable")
    at = order[np.minimum(np.searchsorted(known, asked, sorter=order), len(known) - 1)]
    same = known[at] == asked
    for name in ("identity", "stop"):
        same &= are_equal(plan[name], at, shards[name])
    return np.where(same, at, -1)


def place_keys(shards: pa.Table, paths: pa.ChunkedArray) -> Ids:
    """A number for each place where shards start; below 0 where the path is none of `paths`."""
    first = pc.index_in(large(shards["path"]), paths).fill_null(-1).to_numpy().astype(np.int64)
    return (first << PLACE_BITS) + shards["start"].fill_null(WHOLE).to_numpy() - WHOLE


def are_equal(known: pa.ChunkedArray, at: Ids, asked: pa.ChunkedArray) -> Mask:
    """Which values are those that stand at some places of a column, or are missing there too."""
    if pa.types.is_integer(known.type):
        known, asked = known.fill_null(WHOLE), asked.fill_null(WHOLE)
    else:
        known, asked = large(known), large(asked)
    found: Mask = pc.equal(known.take(pa.array(at)), asked).to_numpy()
    return found
