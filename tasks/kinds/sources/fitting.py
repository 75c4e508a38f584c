"""Makes rows what a schema says; those that do not fit are bad rows, each with its reason."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tasks.kinds import lossless
from tasks.kinds.sources.source import BYTES_PER_READ, BadRow, Read
from tasks.kinds.sources.stored_arrays import in_shape

DATA_ERRORS = (
    *(pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OSError),
    UnicodeDecodeError,  # a footer's names may be none
)
REFUSALS = (ValueError, pa.ArrowNotImplementedError, pa.ArrowTypeError)
"""What is raised where a value does not fit."""
Fit: TypeAlias = Callable[[pa.Table], pa.Table]
Suspects: TypeAlias = Callable[[pa.Table], dict[int, Fit]]

STORAGE_SAID = re.compile(
    r"AWS Error|curlCode|google::cloud::|Generic (?:S3|GCS|MicrosoftAzure) error"
    r"|error sending request"
)
"""What clients of object stores say that are not ours, in an OSError."""
ONE_TYPE = "make its type the same in all files, or leave it out"
WRONG_CHECKSUMS = (
    "; if its writer is known to write wrong checksums, set source.verify_checksums: false"
)
LANCE_SAID = "LanceError(IO)"
"""What Lance says, in any."""


def data_error(error: Exception) -> Exception:
    """The error, where it says that the data is damaged.

    Raises:
        ConnectionError: a store of a table's own did not answer.
        OSError: the error itself: storage failed.
    """
    said = str(error)
    # Others may hold a row's own words.
    if LANCE_SAID in said or (isinstance(error, OSError) and STORAGE_SAID.search(said)):
        raise ConnectionError(said) from error
    # Arrow's own have no errno; a time-out has none either, but a class of its own.
    if isinstance(error, OSError) and (error.errno is not None or type(error) is not OSError):
        raise error
    return error


def with_way_out(error: Exception) -> Exception:
    """An error of the data, with what to do where that is as it was written."""
    said = " ".join(str(error).split())
    return ValueError(said + WRONG_CHECKSUMS) if "CRC checksum" in said else error


def fitted(schema: pa.Schema, rows: pa.Table, way_out: str = ONE_TYPE) -> pa.Table:
    """Rows with the pinned names and types.

    Args:
        schema: the names and types.
        rows: as they were read.
        way_out: for the person whose column has a value that does not fit.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit, or a text is none.
    """
    columns = []
    for each in schema:
        columns.append(cast(rows, each, way_out))
        if not pa.types.is_primitive(each.type):
            see_that_texts_are_utf8(columns[-1], each.name)
    return pa.table(columns, schema=schema)


def see_that_texts_are_utf8(column: pa.ChunkedArray, name: str) -> None:
    """Parquet keeps any bytes as text, and Arrow takes them as they are.

    Raises:
        pyarrow.ArrowInvalid: one of them is no UTF-8.
    """
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"column {name!r}: the text is not UTF-8") from error


def misfits(schema: pa.Schema, rows: pa.Table, way_out: str = ONE_TYPE) -> dict[int, Fit]:
    """Rows that `fitted` refuses, by their places, and what of it does.

    Looked for column by column: to make rows of many columns again and again takes long. So does
    looking again for those that are known, where they do not fit in many columns.
    """
    found: dict[int, Fit] = {}
    left = np.arange(len(rows))
    for each in schema:
        if not len(left):
            break
        if rows.schema.get_all_field_indices(each.name):
            fit = partial(fitted, pa.schema([each]), way_out=way_out)
            column = rows.select([each.name])
            places = [*search(column.take(left) if found else column, fit)]
            found |= dict.fromkeys(left[places].tolist(), fit)
            left = np.delete(left, places)
    return found


def alone(fit: Fit, rows: pa.Table) -> pa.Table:
    """What `fit` makes of rows, whatever others have that lie in the same arrays.

    Arrow casts and validates lists with all values of their array, and so refuses a slice for what
    lies before or behind it.

    Raises:
        ValueError: a value does not fit, or one of the other `REFUSALS`.
    """
    try:
        return fit(rows)
    except REFUSALS as error:
        kinds = enumerate(rows.schema.types)
        columns = [column for column, kind in kinds if may_hold_others(kind)]
        if not columns:
            raise
        try:
            for column in columns:
                taken = rows.column(column).take(np.arange(len(rows)))
                rows = rows.set_column(column, rows.schema.field(column), taken)
        except pa.ArrowNotImplementedError:  # it takes no views
            raise error from None
        return fit(rows)


def may_hold_others(kind: pa.DataType) -> bool:
    """Whether a slice of an array holds values of rows that are not in it."""
    return bool(pa.types.is_nested(kind)) or isinstance(kind, pa.BaseExtensionType)


def search(rows: pa.Table, fit: Fit, start: int = 0) -> Iterator[int]:
    """Halve rows that do not fit until each of those is alone.

    Args:
        rows: to be looked at.
        fit: raises an error where one does not fit.
        start: which place the first one has.

    Yields:
        The places of rows that do not fit.
    """
    try:
        alone(fit, rows)
        return
    except REFUSALS:
        half = len(rows) // 2
    if half:
        yield from search(rows.slice(0, half), fit, start)
        yield from search(rows.slice(half), fit, start + half)
    else:
        yield start


def conformed(rows: pa.Table, fit: Fit, suspects: Suspects | None = None) -> Iterator[Read]:
    """What `fit` makes of rows; those that do not fit are bad rows.

    Args:
        rows: to be fitted.
        fit: raises an error where one does not fit.
        suspects: tells which do not; else they are halved until alone.
    """
    if rows.nbytes > BYTES_PER_READ and len(rows) > 1:
        yield from halves(rows, fit, suspects)
        return
    try:
        table = alone(fit, rows)
    except REFUSALS as error:
        if len(rows) == 1:
            yield BadRow(error, readable(rows))
        elif suspects is None:
            yield from halves(rows, fit)
        else:
            yield from around(suspects, rows, fit)
        return
    if len(table):
        yield table


def around(suspects: Suspects, rows: pa.Table, fit: Fit) -> Iterator[Read]:
    """What `fit` makes of rows without those that do not fit, and these, bad, in their places."""
    are_good = np.ones(len(rows), dtype=bool)
    try:
        bad = suspects(rows)
        are_good[[*bad]] = False
        table, used = fit(rows.filter(pa.array(are_good))), 0
    except REFUSALS:  # of types that Arrow takes nothing from
        yield from halves(rows, fit)
        return
    for start, stop in pairwise([-1, *sorted(bad), len(rows)]):
        if count := stop - start - 1:
            yield table.slice(used, count)
            used += count
        if stop < len(rows):
            yield from conformed(rows.slice(stop, 1), bad[stop])


def readable(row: pa.Table) -> str:
    """The beginning of a row's values, for a person."""
    try:
        return str(row.to_pylist()[0])[:500]
    except ValueError:  # a text is none
        return f"a row of {', '.join(row.column_names)}"[:500]


def halves(rows: pa.Table, fit: Fit, suspects: Suspects | None = None) -> Iterator[Read]:
    """Both halves of rows that were too much, or of which one does not fit."""
    yield from conformed(rows.slice(0, len(rows) // 2), fit, suspects)
    yield from conformed(rows.slice(len(rows) // 2), fit, suspects)


def cast(rows: pa.Table, wanted: pa.Field, way_out: str = ONE_TYPE) -> pa.ChunkedArray:
    """A column as the pinned type, arrays in their shape; null where the file lacks it.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit, or would not stay what it is.
    """
    # Not by a list of their names: to make one for each of thousands of columns takes seconds.
    if not rows.schema.get_all_field_indices(wanted.name):
        return pa.chunked_array([pa.nulls(len(rows), wanted.type)])
    try:
        note = rows.schema.field(wanted.name).metadata
        column = in_shape(rows[wanted.name], note, wanted.type)
        return lossless.cast(column, wanted.type, all_fields=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise pa.ArrowInvalid(f"column {wanted.name!r}: {error}: {way_out}") from error
