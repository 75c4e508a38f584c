"""User code that takes a row at a time, as Ray's `map` and `flat_map` call it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import UserCodeBroke
from tasks.kinds import columns, user_rows
from tasks.kinds.tensors import is_tensor
from tasks.kinds.unchanged_values import alike_lists
from tasks.protocol.batch import ROW

Row = dict[str, Any]
"""Values by column: arrays of shape (height, width, 3) for images, (samples,) for sounds, else
what Python has for Arrow's, with None for a missing one."""
Returned = Mapping[Any, Any]


def call_on_rows(
    function: Callable[[Row], Any], rows: pa.Table, made: Callable[[Any], Iterable[Returned]]
) -> pa.Table:
    """Call user code with each row.

    Columns of which it leaves all values alone come back as they are in `rows`; others have the
    type that they had, where that holds their new values.

    Args:
        function: gets a row, which it may change.
        rows: with ids, and with their media decoded.
        made: rows in what it returned.

    Returns:
        What it made of them, each under the id of its row.

    Raises:
        UserCodeBroke: it returned something else, or rows of which one has a column that another
            lacks, or columns of our names.
        KeyError: as the code raised it, with what there is to choose from.
    """
    given = rows.select(columns.visible(rows))
    sent = {name: values_of(given[name]) for name in given.column_names}
    returned, at = list[Returned](), list[int]()
    for number in range(len(rows)):
        row = {name: values[number] for name, values in sent.items()}
        for each in made(call(function, row, given.column_names)):
            returned.append(each)
            at.append(number)
    if not returned:
        return rows.slice(0, 0)
    found = columns_of(returned)
    table = user_rows.from_user(found, with_given_types(given, sent, at, found))
    return table.add_column(0, ROW, rows[ROW].take(pa.array(at)))


def call(function: Callable[[Row], Any], row: Row, names: list[str]) -> Any:
    """What the code returns for a row, which has columns of these names."""
    try:
        return function(row)
    except KeyError as error:
        if error.args[:1] and error.args[0] in names:
            raise
        raise KeyError(f"{error}; the row has the columns {', '.join(names)}") from error


def one_row(returned: Any) -> list[Returned]:
    """What a function returns that makes a row of a row.

    Raises:
        UserCodeBroke: it is none.
    """
    if not isinstance(returned, Mapping):
        problem = "it must return a dict of the new row's columns for each row"
        raise UserCodeBroke(f"it returned {type(returned).__name__}: {problem}")
    return [returned]


def several_rows(returned: Any) -> list[Returned]:
    """What a function returns, or yields, that makes several rows of a row, or none.

    Raises:
        UserCodeBroke: it is something else.
    """
    problem = "it must return a list of dicts for each row, one for each new row"
    if isinstance(returned, (str, bytes, Mapping)) or not isinstance(returned, Iterable):
        raise UserCodeBroke(f"it returned {type(returned).__name__}: {problem}")
    rows = [*returned]
    for each in rows:
        if not isinstance(each, Mapping):
            raise UserCodeBroke(f"it returned a list with {type(each).__name__}: {problem}")
    return rows


def columns_of(rows: list[Returned]) -> dict[str, list[Any]]:
    """Values by column of rows that all have the same ones.

    Raises:
        UserCodeBroke: they have not, or one has a name that is ours.
    """
    names = rows[0].keys()
    for each in rows:
        if each.keys() != names:
            name = next(iter(each.keys() ^ names))
            raise UserCodeBroke(
                f"it returned rows with the column {name!r} and rows without it: return each "
                "column in every row, as None where there is nothing"
            )
    user_rows.refuse_reserved(map(str, names))
    return {str(name): [each[name] for each in rows] for name in names}


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """A column's values; arrays and lists are the code's own, to write to."""
    if is_tensor(column.type) or isinstance(column.type, pa.FixedShapeTensorType):
        return [*columns.writable(columns.column_to_numpy(column))]
    return column.to_pylist()


def with_given_types(
    given: pa.Table, sent: Mapping[str, list[Any]], at: list[int], found: Mapping[str, list[Any]]
) -> dict[str, pa.Array | pa.ChunkedArray]:
    """Columns that came back and were there before, with the types that they had.

    Python's values do not tell these: a column would have another type in batches of which the
    code has changed a value. Not those that their type no longer holds.

    Args:
        given: the columns.
        sent: what the code got of them; arrays and lists in it are compared with others, since it
            may have written to them.
        at: where each returned row's parent lies among their rows.
        found: what came back, by column.
    """
    is_as_given = at == [*range(len(given))]
    made = dict[str, pa.Array | pa.ChunkedArray]()
    for name in given.column_names:
        if name not in found:
            continue
        column, kind = given[name], given[name].type
        may_differ = pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType)
        values = values_of(column) if may_differ else sent[name]
        if alike_lists([values[each] for each in at], found[name]):
            made[name] = column if is_as_given else column.take(pa.array(np.asarray(at)))
        elif (fitting := of_type(found[name], kind)) is not None:
            made[name] = fitting
    return made


def of_type(values: list[Any], kind: pa.DataType) -> pa.Array | None:
    """Values as a column of a type; None where it does not hold them just as they are."""
    try:
        made = pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return made if alike_lists(made.to_pylist(), values) else None
