"""What user code returned, as an Arrow table, and which of the rows given to it came back."""

from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from tasks.errors import UserCodeBroke
from tasks.kinds.user_values import column_from_user, in_own_memory, needs_own_way, with_room
from tasks.protocol.batch import RESERVED, ROW
from tasks.protocol.ids import Ids, are_in, distinct, have_no_gap, starts


def from_user(batch: Any, untouched: Mapping[str, pa.ChunkedArray] | None = None) -> pa.Table:
    """What user code returned as a table.

    Args:
        batch: what it returned.
        untouched: columns that need not be converted, as they are published.

    Raises:
        UserCodeBroke: it is no dict of columns, frame or table, two columns have one name, columns
            differ in length or have no value for each row, ids have no Arrow type, or rows are in
            another order and bear none.
        TypeError: a column has no Arrow type.
    """
    untouched = untouched or {}
    if isinstance(batch, pa.Table):
        refuse_namesakes(batch.column_names)
        own = [*map(in_own_memory, batch.columns)]
        fields = [field.with_type(each.type) for field, each in zip(batch.schema, own, strict=True)]
        return pa.table(own, schema=pa.schema(fields, batch.schema.metadata))
    if isinstance(batch, pd.DataFrame):
        refuse_namesakes(batch.columns)
        refuse_reordered([] if ROW in batch else [batch.index])
        return from_frame(batch, untouched)
    if not isinstance(batch, Mapping):
        problem = "it must return a dict of columns, a frame or a table, with a value for each row"
        if isinstance(batch, Generator):
            problem += "; return everything at once instead of using yield"
        if isinstance(batch, (Coroutine, AsyncGenerator)):
            problem += (
                "; give a function that is not async and calls the async one with asyncio.run"
            )
        if isinstance(batch, Coroutine):
            batch.close()  # else Python warns that nobody has waited for it
        raise UserCodeBroke(f"it returned {type(batch).__name__}: {problem}")
    refuse_namesakes(batch)
    series = [each for each in batch.values() if isinstance(each, pd.Series)]
    refuse_reordered([] if ROW in batch else [each.index for each in series])
    arrays = {
        str(name): untouched[name] if name in untouched else column_from_user(name, values)
        for name, values in batch.items()
    }
    refuse_ragged(arrays)
    return pa.table(arrays)


def refuse_namesakes(names: Iterable[object]) -> None:
    """Two columns of one name are none of the data's doing.

    Raises:
        UserCodeBroke: names them.
    """
    counts = Counter(map(str, names))
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise UserCodeBroke(f"more than one column is named {twice[0]!r}: return each name once")


def refuse_reserved(names: Iterable[str]) -> None:
    """Names that start with `__` are ours.

    Raises:
        UserCodeBroke: names them.
    """
    if taken := [name for name in names if name.startswith(RESERVED)]:
        raise UserCodeBroke(f"it returned the columns {taken}: names with __ are reserved")


def refuse_reordered(indexes: Iterable[pd.Index]) -> None:
    """An index that pandas gave rows by their places says where they have been moved from.

    Raises:
        UserCodeBroke: they have been.
    """
    for index in indexes:
        places = np.arange(len(index))
        if index.name is not None or not pd.api.types.is_integer_dtype(index.dtype):
            continue  # the code's own
        found = index.to_numpy()
        if not np.array_equal(found, places) and np.array_equal(np.sort(found), places):
            raise UserCodeBroke(
                "it returned rows in another order, according to their index: return them with "
                ".sort_index(), or set with_row_ids and return __row"
            )


def refuse_ragged(arrays: Mapping[str, pa.Array | pa.ChunkedArray]) -> None:
    """Columns of unequal length are none of the data's doing.

    Raises:
        UserCodeBroke: names them with their lengths.
    """
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise UserCodeBroke(
            f"it returned columns of unequal length, {lengths}: return one value for each row in "
            "every column"
        )


def row_ids(returned: pa.Table) -> Ids:
    """The ids in the column `__row` that came back.

    Raises:
        UserCodeBroke: there are two such columns, or one of something else than ids.
    """
    refuse_namesakes(returned.column_names)
    wanted = "return its ids unchanged"
    try:
        ids = returned[ROW].cast(pa.int64())
    except pa.ArrowException as error:
        raise UserCodeBroke(
            f"it returned {ROW} with values that are not ids: {wanted} ({error})"
        ) from error
    if ids.null_count:
        raise UserCodeBroke(f"it returned {ROW} with missing values: {wanted}")
    return ids.to_numpy()


def from_frame(frame: pd.DataFrame, untouched: Mapping[str, pa.ChunkedArray]) -> pa.Table:
    """A frame's columns; its index is not one of them."""
    left = [name for name in frame.columns if name not in untouched]
    plain = [name for name in left if not needs_own_way(frame[name])]
    # Of a frame that the code keeps, Arrow would take the memory as it is.
    rows = pa.Table.from_pandas(frame[plain].copy(), preserve_index=False)
    arrays = {**untouched}
    for name, column in zip(plain, rows.columns, strict=True):
        is_of_python = pd.api.types.is_object_dtype(frame[name].dtype)
        arrays[str(name)] = with_room(column) if is_of_python else column
    for name in set(left) - set(plain):
        arrays[str(name)] = column_from_user(name, frame[name])
    return pa.table({str(name): arrays[str(name)] for name in frame.columns})


def positions(given: Ids, returned: Ids) -> Ids | None:
    """Where the rows that came back lay among those given; None: just as they were given.

    Children of one row are taken to be in their order.

    Raises:
        UserCodeBroke: ids were not given, or some children of a row stayed away or came twice.
    """
    if np.array_equal(given, returned):
        return None
    if np.all(given[1:] > given[:-1]) and np.all(returned[1:] >= returned[:-1]):
        return ascending_positions(given, returned)
    order = np.argsort(given, kind="stable")
    first, counts = spans(given[order], returned)
    refuse_unknown(returned[counts == 0])
    if counts.max(initial=0) <= 1:
        return order[first]
    back = np.argsort(returned, kind="stable")
    first_back, counts_back = spans(returned[back], returned)
    rank = np.empty(len(returned), dtype=np.int64)
    rank[back] = np.arange(len(returned)) - first_back[back]
    several = counts > 1
    if (several & (counts != counts_back)).any():
        at = int(np.flatnonzero(several & (counts != counts_back))[0])
        raise UserCodeBroke(
            f"it got the row {returned[at]} as {counts[at]} rows of one {ROW} and returned "
            f"{counts_back[at]}, so it is unknown which belong together: return as many, in the "
            "same order, or return every input column that is kept"
        )
    result: Ids = order[first + np.where(several, rank, 0)]
    return result


def first_places(given: Ids, returned: Ids) -> Ids:
    """Where the first row of each id lay among those given.

    Raises:
        UserCodeBroke: ids were not given.
    """
    order = np.argsort(given, kind="stable")
    first, counts = spans(given[order], returned)
    refuse_unknown(returned[counts == 0])
    found: Ids = order[first]
    return found


def ascending_positions(given: Ids, returned: Ids) -> Ids:
    """The same where both ascend and each row was given once, as nearly always.

    Raises:
        UserCodeBroke: ids were not given.
    """
    first = starts(returned)
    each = returned[first]
    counts = np.diff(np.append(first, len(returned)))
    if np.array_equal(given, each):
        return np.repeat(np.arange(len(given)), counts)
    refuse_unknown(each[~are_in(given, each)])
    return np.repeat(np.searchsorted(given, each), counts)


def refuse_unknown(ids: Ids) -> None:
    """Ids that came back and were not given.

    Raises:
        UserCodeBroke: names some.
    """
    if len(ids):
        unknown = distinct(ids)[:3].tolist()
        raise UserCodeBroke(f"it returned {ROW} with ids that it did not get: {unknown}")


def spans(ordered: Ids, ids: Ids) -> tuple[Ids, Ids]:
    """Where each id begins among ordered ones, and how often it is there."""
    if have_no_gap(ordered):  # as nearly always; to search takes a hundred times as long
        is_there = (ids >= ordered[0]) & (ids <= ordered[-1])
        return np.where(is_there, ids - ordered[0], 0), is_there.astype(np.int64)
    first = np.searchsorted(ordered, ids, side="left")
    return first, np.searchsorted(ordered, ids, side="right") - first
