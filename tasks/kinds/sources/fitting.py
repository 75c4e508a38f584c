"""Makes rows what a schema says; those that do not fit are bad rows, each with its reason."""

import re
from collections.abc import Callable, Iterator

import pyarrow as pa

from tasks.kinds import lossless
from tasks.kinds.sources.source import BYTES_PER_READ, BadRow, Read
from tasks.kinds.sources.stored_arrays import in_shape

DATA_ERRORS = (
    *(pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OSError),
    UnicodeDecodeError,  # a footer's names may be none
)


STORAGE_SAID = re.compile(
    r"AWS Error|curlCode|google::cloud::|Generic (?:S3|GCS|MicrosoftAzure) error"
    r"|error sending request"
)
"""What clients of object stores say that are not ours, in an OSError."""
ONE_TYPE = "give it one type in all files, or leave it out"
WRONG_CHECKSUMS = (
    "; where whoever wrote the file is known for wrong ones, set source.verify_checksums: false"
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
    table = pa.table([cast(rows, each, way_out) for each in schema], schema=schema)
    for each in schema:
        if not pa.types.is_primitive(each.type):
            see_that_texts_are_utf8(table[each.name], each.name)
    return table


def see_that_texts_are_utf8(column: pa.ChunkedArray, name: str) -> None:
    """Parquet keeps any bytes as text, and Arrow takes them as they are.

    Raises:
        pyarrow.ArrowInvalid: one of them is no UTF-8.
    """
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"column {name!r}: the text is not UTF-8") from error


def conformed(rows: pa.Table, fit: Callable[[pa.Table], pa.Table]) -> Iterator[Read]:
    """What `fit` makes of rows; those that do not fit are halved until alone."""
    if rows.nbytes > BYTES_PER_READ and len(rows) > 1:
        yield from halves(rows, fit)
        return
    try:
        table = fit(rows)
    except (ValueError, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        if len(rows) > 1:
            yield from halves(rows, fit)
        else:
            yield BadRow(error, readable(rows))
        return
    if len(table):
        yield table


def readable(row: pa.Table) -> str:
    """The beginning of a row's values, for a person."""
    try:
        return str(row.to_pylist()[0])[:500]
    except ValueError:  # a text is none
        return f"a row of {', '.join(row.column_names)}"[:500]


def halves(rows: pa.Table, fit: Callable[[pa.Table], pa.Table]) -> Iterator[Read]:
    """Both halves of rows that were too much, or of which one does not fit."""
    yield from conformed(rows.slice(0, len(rows) // 2), fit)
    yield from conformed(rows.slice(len(rows) // 2), fit)


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
