"""Finds the row that breaks a function: only data errors reject rows, and only guilty ones."""

import traceback
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tasks.counted import counted
from tasks.errors import BatchInferenceError, UserCodeBroke
from tasks.kinds import user_rows
from tasks.kinds.mixed_tensors import with_one_kind_of_tensors
from tasks.kinds.models.machine_errors import chain, is_of_the_machine
from tasks.protocol.batch import ROW
from tasks.protocol.ids import are_in, distinct
from tasks.ray_job import missing_values
from tasks.ray_job.lost_files import is_of_a_lost_file
from tasks.ray_job.parents import num_parents, parent_starts
from tasks.ray_job.part_size import PartSize

Function = Callable[[pa.Table], pa.Table]
RUST_PANIC = "PanicException"
"""What pyo3 raises where Rust code gives up; no Exception, and nowhere to be imported from."""


@dataclass(frozen=True)
class Outcome:
    """What a function made of some rows."""

    rows: pa.Table | None
    """None where no row came through."""
    failed: dict[int, Exception]
    """Guilty rows by id."""


def call_with_blame(function: Function, rows: pa.Table) -> Outcome:
    """Call a function; where it raises a data error, look for the guilty rows.

    A row is guilty when it fails alone, twice. The children of one row share its fate.

    Args:
        function: over rows.
        rows: to call it with.

    Raises:
        UserCodeBroke: a column came back with types that do not go together.
        Exception: any error that is not the data's fault, as it is.
    """
    returned, error = tried(function, rows)
    if error is None:
        return Outcome(returned, {})
    if num_parents(rows) == 1:
        return last_chance(function, rows, error)
    parts = missing_values.apart(rows)
    if not parts:
        return searched(function, rows, fail=True)
    outcomes = [searched(function, part, fail=False) for part in parts]
    tables = [outcome.rows for outcome in outcomes if outcome.rows is not None]
    together = concatenated(tables) if tables else None
    if len(tables) > 1:
        together = missing_values.in_order(together, rows[ROW].to_numpy())
    return Outcome(together, outcomes[0].failed | outcomes[1].failed)


def searched(function: Function, rows: pa.Table, *, fail: bool) -> Outcome:
    """Call a function with rows in parts, until each guilty one was alone.

    Args:
        function: over rows.
        rows: to call it with.
        fail: whether it is known to fail with all of them.
    """
    starts = parent_starts(rows)
    at, end = 0, len(starts) - 1
    size = PartSize.of(end, fail=fail)
    tables, failed = list[pa.Table](), dict[int, Exception]()
    while at < end:
        stop = min(at + size.rows, end)
        part = rows.slice(int(starts[at]), int(starts[stop] - starts[at]))
        returned, error = tried(function, part)
        if error and stop - at > 1:
            size.after_failure(at, stop)
            continue
        if error:
            outcome = last_chance(function, part, error)
            returned = outcome.rows
            failed.update(outcome.failed)
        if returned is not None:
            tables.append(returned)
        at = stop
        size.after(at, found=error is not None)
    return Outcome(concatenated(tables) if tables else None, failed)


def tried(function: Function, rows: pa.Table) -> tuple[pa.Table | None, Exception | None]:
    """What a function made of rows, or the data error that it raised."""
    try:
        return keeping_rows(function, rows), None
    except Exception as error:
        if not (is_data_error(error) or is_of_a_lost_file(error, rows)):
            raise
        return None, forgetful(error)


def concatenated(tables: list[pa.Table]) -> pa.Table:
    """What several calls returned, as one table.

    A call that returned no row need not know the types of the others' columns.

    Raises:
        UserCodeBroke: a column came back with types that do not go together; names both.
    """
    tables = with_one_kind_of_tensors([each for each in tables if len(each)] or tables[:1])
    if len(tables) == 1:
        return tables[0]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        with suppress(pa.ArrowException):
            return pa.concat_tables(missing_values.untyped(tables), promote_options="permissive")
        at, name = odd_one(tables)
        before = concatenated([each.select([name]) for each in having(name, tables[:at])])
        raise UserCodeBroke(
            f"it returned the column {name!r} as {before.schema.field(name).type} and then as "
            f"{tables[at].schema.field(name).type}: return one type for all rows ({error})"
        ) from error


def odd_one(tables: list[pa.Table]) -> tuple[int, str]:
    """The first table, and the column in it, that does not go with those before.

    Types alone do not tell: whole numbers go with fractions while they are small.
    """
    at = bisect_left(range(1, len(tables) + 1), True, key=lambda n: bool(odd_columns(tables[:n])))
    if at == len(tables):
        raise ValueError("all tables go together")
    return at, odd_columns(tables[: at + 1])[0]


def odd_columns(tables: list[pa.Table]) -> list[str]:
    """Columns that do not go together in some tables."""
    odd = []
    for name in dict.fromkeys(name for table in tables for name in table.column_names):
        try:
            pa.concat_tables(
                [each.select([name]) for each in having(name, tables)], promote_options="permissive"
            )
        except pa.ArrowException:
            odd.append(name)
    return odd


def having(name: str, tables: list[pa.Table]) -> list[pa.Table]:
    """Those with a column of this name."""
    return [each for each in tables if each.schema.get_all_field_indices(name)]


def last_chance(function: Function, rows: pa.Table, first: Exception) -> Outcome:
    """Try a row that failed alone once more."""
    returned, error = tried(function, rows)
    return Outcome(returned, {int(rows[ROW][0].as_py()): first} if error else {})


def forgetful(error: Exception) -> Exception:
    """An error whose frames let go of what they held, as of a batch on a GPU that is full of it."""
    for each in chain(error):
        traceback.clear_frames(each.__traceback__)
    return error


def is_data_error(error: BaseException) -> bool:
    """Whether an error can be the data's fault: not the house's, storage's, network's, device's.

    Decoders raise OSError without an errno ("image file is truncated"); the system always gives
    one.
    """
    if is_of_the_machine(error):
        return False
    if isinstance(error, OSError):
        return error.errno is None
    return isinstance(error, Exception) and not isinstance(
        error, (BatchInferenceError, ImportError)
    )


def keeping_rows(function: Function, rows: pa.Table) -> pa.Table:
    """Call a function and see that it kept rows, or said by `__row` which not.

    Raises:
        UserCodeBroke: it returned another number of rows without ids, or ids it was not given, or
            what is no id.
    """
    returned = called(function, rows)
    if ROW not in returned.column_names:
        if len(returned) != len(rows):
            raise UserCodeBroke(
                f"{counted(len(rows), 'row')} given and {len(returned):,} returned: return as "
                "many in the same order, or set with_row_ids and return __row to filter or "
                "multiply rows"
            )
        return returned.add_column(0, ROW, rows[ROW])
    ids, given = user_rows.row_ids(returned), rows[ROW].to_numpy()
    if np.array_equal(ids, given) and returned[ROW].type == pa.int64():
        return returned
    there = distinct(ids)
    unknown = there[~are_in(np.sort(given, kind="stable"), there)]
    if len(unknown):
        raise UserCodeBroke(
            f"it returned __row with ids that it did not get: {unknown[:3].tolist()}"
        )
    return grouped(returned.set_column(returned.column_names.index(ROW), ROW, pa.array(ids)))


def called(function: Function, rows: pa.Table) -> pa.Table:
    """Call a function, whose panics are errors as others are: a row may have led to one.

    Raises:
        RuntimeError: its Rust code panicked.
    """
    try:
        return function(rows)
    except BaseException as error:
        if type(error).__name__ != RUST_PANIC:
            raise
        raise RuntimeError(f"code in Rust panicked: {error}") from error


def grouped(rows: pa.Table) -> pa.Table:
    """Rows with the children of one row side by side, otherwise in order."""
    ids = rows[ROW].to_numpy()
    runs = ids[np.append(True, ids[1:] != ids[:-1])] if len(ids) else ids
    if len(distinct(runs)) == len(runs):
        return rows
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    return rows.take(pa.array(np.argsort(first[inverse], kind="stable")))
