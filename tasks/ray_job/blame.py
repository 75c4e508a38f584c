"""Finds the row that breaks a function: only data errors reject rows, and only guilty ones."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tasks.errors import BatchInferenceError, UserCodeBroke
from tasks.kinds import columns
from tasks.protocol.batch import ROW

Function = Callable[[pa.Table], pa.Table]
DEVICE_ERRORS = ("AcceleratorError", "OutOfMemoryError", "CudaError")


@dataclass(frozen=True)
class Outcome:
    """What a function made of some rows."""

    rows: pa.Table | None
    """None where no row came through."""
    failed: dict[int, Exception]
    """Guilty rows by id."""


def call_with_blame(function: Function, rows: pa.Table) -> Outcome:
    """Call a function; where it raises a data error, split until the guilty row is alone.

    A row is guilty when it fails alone, twice. The children of one row share its fate.

    Raises:
        Exception: any error that is not the data's fault, as it is.
    """
    try:
        return Outcome(keeping_rows(function, rows), {})
    except Exception as error:
        if not is_data_error(error):
            raise
        first = error
    ids = rows[ROW].to_numpy()
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    if len(starts) == 1:
        return last_chance(function, rows, int(ids[0]), first)
    middle = int(starts[len(starts) // 2])
    halves = [rows.slice(0, middle), rows.slice(middle)]
    outcomes = [call_with_blame(function, half) for half in halves]
    tables = [outcome.rows for outcome in outcomes if outcome.rows is not None]
    joined = pa.concat_tables(tables, promote_options="permissive") if tables else None
    return Outcome(joined, outcomes[0].failed | outcomes[1].failed)


def last_chance(function: Function, rows: pa.Table, row_id: int, first: Exception) -> Outcome:
    """Try a row that failed alone once more."""
    try:
        return Outcome(keeping_rows(function, rows), {})
    except Exception as error:
        if not is_data_error(error):
            raise
        return Outcome(None, {row_id: first})


def is_data_error(error: BaseException) -> bool:
    """Whether an error can be the data's fault: not the house's, storage's, network's, device's.

    Decoders raise OSError without an errno ("image file is truncated"); the system always gives
    one.
    """
    if isinstance(error, OSError) and not isinstance(error, (ConnectionError, TimeoutError)):
        return error.errno is None
    if type(error).__name__ in DEVICE_ERRORS:
        return False
    environment = (BatchInferenceError, ConnectionError, TimeoutError, MemoryError, ImportError)
    return isinstance(error, Exception) and not isinstance(error, environment)


def keeping_rows(function: Function, rows: pa.Table) -> pa.Table:
    """Call a function and see that it kept rows, or said by `__row` which not.

    Raises:
        UserCodeBroke: it returned another number of rows without ids, or ids it was not given, or
            what is no id.
    """
    returned = function(rows)
    if ROW not in returned.column_names:
        if len(returned) != len(rows):
            raise UserCodeBroke(
                f"{len(rows)} rows were given and {len(returned)} returned: return as many in the "
                "same order, or set with_row_ids and return __row to filter or multiply rows"
            )
        return returned.add_column(0, ROW, rows[ROW])
    ids = columns.row_ids(returned)
    unknown = np.setdiff1d(ids, rows[ROW].to_numpy())
    if len(unknown):
        raise UserCodeBroke(f"__row came back with ids that were not given: {unknown[:3].tolist()}")
    return grouped(returned.set_column(returned.column_names.index(ROW), ROW, pa.array(ids)))


def grouped(rows: pa.Table) -> pa.Table:
    """Rows with the children of one row side by side, otherwise in order."""
    ids = rows[ROW].to_numpy()
    runs = ids[np.append(True, ids[1:] != ids[:-1])] if len(ids) else ids
    if len(np.unique(runs)) == len(runs):
        return rows
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    return rows.take(pa.array(np.argsort(first[inverse], kind="stable")))
