"""What user code is handed of rows, and which of its columns come back untouched."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from tasks.errors import UserCodeBroke
from tasks.kinds import columns, user_rows
from tasks.kinds.column_types import is_plain_number, is_text
from tasks.kinds.unchanged_values import alike, alike_texts
from tasks.protocol.batch import ROW
from tasks.protocol.ids import Ids

BatchFormat = Literal["numpy", "pandas", "pyarrow"]
TO_USER: dict[BatchFormat, Callable[[pa.Table], Any]] = {
    "numpy": columns.to_numpy,
    "pandas": columns.to_pandas,
    "pyarrow": lambda rows: rows,
}
AS_SENT: dict[BatchFormat, Callable[[pa.Table], Mapping[str, Any] | pd.DataFrame]] = {
    "numpy": columns.to_numpy_read_only,
    "pandas": columns.to_pandas,
}
"""The same, to be looked at alone; columns of Arrow's tell their types themselves."""


def gets_encoded_media(batch_format: BatchFormat) -> bool:
    """Whether code gets images and sounds as their files have them: Arrow has no type for them."""
    return batch_format == "pyarrow"


def texts_in(given: pa.Table, batch: Any) -> dict[str, np.ndarray]:
    """Columns of texts that are arrays of Python's own: these, since nobody can write to a text."""
    names = [each.name for each in given.schema if is_text(each.type)]
    return {name: batch[name].copy() for name in names if isinstance(batch[name], np.ndarray)}


def untouched(
    given: pa.Table, texts: Mapping[str, np.ndarray], returned: Any, batch_format: BatchFormat
) -> dict[str, Any]:
    """Columns that came back as user code got them, as they were given, by name.

    None of a table, where they have lost nothing. Where rows came back in another order, more than
    once or not all, these are told by their ids. Columns are compared with a second conversion:
    user code may write to what it was handed.

    Args:
        given: the columns.
        texts: what user code got of those of texts, which are compared as they are.
        returned: what came back.
        batch_format: of it.
    """
    if batch_format not in AS_SENT or not isinstance(returned, (Mapping, pd.DataFrame)):
        return {}
    back = [name for name in given.column_names if name in returned]
    names = [name for name in back if not tells_its_type(given[name], returned[name])]
    if not names:
        return {}
    try:
        order = order_of(given.select(back), returned)
    except UserCodeBroke:  # the adapter says so, unless it is a step that leaves out some children
        order, names = as_any_child(given, returned, names)
    given = given.select(names)
    others = given.select([name for name in given.column_names if name not in texts])
    # Of all rows, and taken then: of those that are left alone, none may lack a value any more,
    # and whole numbers would not be the floats that user code got.
    sent = {**AS_SENT[batch_format](others), **texts}
    return {
        name: given[name] if order is None else given[name].take(pa.array(order))
        for name in given.column_names
        if (alike_texts if name in texts else alike)(taken(sent[name], order), returned[name])
    }


def as_any_child(
    given: pa.Table, returned: Mapping[str, Any] | pd.DataFrame, names: list[str]
) -> tuple[Ids, list[str]]:
    """Where a row of the same id lay, and the columns in which all of one id are alike.

    Which child of a row it was nobody knows, of which some have not come back.

    Args:
        given: the rows.
        returned: what came back.
        names: columns to look at.

    Returns:
        No columns where ids were not given.
    """
    ids = given[ROW].to_numpy()
    try:
        back = user_rows.row_ids(user_rows.from_user({ROW: returned[ROW]}))
        order = user_rows.first_places(ids, back)
    except UserCodeBroke:
        return ids[:0], []
    own = pa.array(user_rows.first_places(ids, ids))
    shared = [name for name in names if columns.same_values(given[name], given[name].take(own))]
    return order, shared


def tells_its_type(given: pa.ChunkedArray, returned: Any) -> bool:
    """Whether what came back becomes the column that was given, if it holds the same numbers."""
    if not (is_plain_number(given.type) and isinstance(returned, np.ndarray)):
        return False
    return not given.null_count and returned.dtype == given.type.to_pandas_dtype()


def taken(column: Any, at: Ids | None) -> Any:
    """Values of a column by their places; all of them where None."""
    if at is None:
        return column
    return column.iloc[at] if isinstance(column, pd.Series) else column[at]


def order_of(given: pa.Table, returned: Mapping[str, Any] | pd.DataFrame) -> Ids | None:
    """Where each row that came back lay among those given; None: all just as they were given.

    Raises:
        UserCodeBroke: ids are none, or were not given.
    """
    if ROW not in given.column_names:
        return None
    ids = user_rows.row_ids(user_rows.from_user({ROW: returned[ROW]}))
    return user_rows.positions(given[ROW].to_numpy(), ids)
