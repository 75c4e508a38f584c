"""Types of CSV columns, by their first values."""

import io
import logging
from collections.abc import Iterable, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.csv as pc
from pyarrow import compute

from tasks.kinds.column_types import NO_VALUE, Word, is_plain_number, is_text
from tasks.kinds.sources.csv_reading.dialect import Dialect
from tasks.kinds.sources.doubles import has_wrapped, without_overlong, would_be_rounded
from tasks.kinds.sources.source import BadRow, Read

NUMBER = r"^\s*[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*$"
"""No code such as 00501."""
CODE = r"^\s*0\d+\s*$"
WORD_CHARACTERS = 40

logger = logging.getLogger(__name__)


class FirstRows:
    """Good rows that a file begins with, as they are written; its bad ones count as rows too."""

    def __init__(self, read: Iterable[Read], most_bytes: int) -> None:
        """Of a file's rows, so many bytes of them."""
        self.tables: list[pa.Table] = []
        self.starts: list[int] = []
        row = size = 0
        for each in read:
            if not isinstance(each, BadRow):
                self.tables.append(each)
                self.starts.append(row)
                size += each.nbytes
            row += 1 if isinstance(each, BadRow) else len(each)
            if size > most_bytes:
                break

    def row(self, at: int) -> int:
        """Which of the file's rows a good one is."""
        for start, table in zip(self.starts, self.tables, strict=True):
            if at < len(table):
                return start + at
            at -= len(table)
        raise IndexError(at)


def inferred(first: FirstRows, dialect: Dialect, path: str) -> pa.Schema:
    """The types of values that were read as strings.

    Args:
        first: rows of these.
        dialect: how they are written.
        path: of their file.
    """
    strings = pa.concat_tables(first.tables)
    written, columns = io.BytesIO(), [*map(without_overlong, strings.columns)]
    pc.write_csv(pa.table(columns, names=strings.column_names), written)
    written.seek(0)
    conversion = dialect.conversion()
    fields = pc.read_csv(
        written,
        read_options=pc.ReadOptions(use_threads=False, block_size=written.getbuffer().nbytes + 1),
        parse_options=pc.ParseOptions(newlines_in_values=True),
        convert_options=conversion,
    ).schema
    settle = partial(settled, nulls=conversion.null_values)
    found = []
    for each, values in zip(map(settle, fields, columns), strings.columns, strict=True):
        at = first_word(values, conversion.null_values) if is_text(each.type) else None
        if at is not None:
            word = values[at].as_py()[:WORD_CHARACTERS]
            each = Word(each.name, word, f"{path}, row {first.row(at)}").noted(each)
        found.append(each)
    return pa.schema(found)


def first_word(values: pa.ChunkedArray, nulls: Sequence[str]) -> int | None:
    """The first value that is none and no number where most are numbers; None where they are not.

    Args:
        values: as they are written.
        nulls: texts that mean null.
    """
    is_number = compute.match_substring_regex(values, NUMBER)
    is_null = compute.is_in(values, pa.array(nulls, pa.string()))
    is_word = compute.invert(compute.or_(is_number, is_null))
    if (compute.sum(is_number).as_py() or 0) <= (compute.sum(is_word).as_py() or 0):
        return None
    at: int = compute.index(is_word, True).as_py()
    return None if at < 0 else at


def settled(field: pa.Field, values: pa.ChunkedArray, nulls: Sequence[str]) -> pa.Field:
    """A column as text where it has no value, or such as are to stay as they are written.

    Args:
        field: what Arrow makes of the values.
        values: as they are written.
        nulls: texts that mean null.
    """
    if pa.types.is_null(field.type):
        return pa.field(field.name, pa.string(), metadata=NO_VALUE)
    is_whole = pa.types.is_integer(field.type)
    is_text = has_wrapped(values) if is_whole else would_be_rounded(field, values, nulls)
    return field.with_type(pa.string()) if is_text else field


def tell_of_text(path: str, columns: Sequence[pa.Field]) -> None:
    """Say which columns are text only because the first file has no value in them.

    Args:
        path: the file that has.
        columns: as that file alone would have them.
    """
    logger.warning(
        "a column without a value in the first file is read as text, but %s has values in it: to "
        "read them with their type (%s), set it in source.types",
        path,
        ", ".join(f"{each.name}: {each.type}" for each in columns),
    )


def tell_of_codes(
    first: FirstRows, columns: Iterable[pa.Field], dialect: Dialect, path: str
) -> None:
    """Warn of codes such as 00501 that are read as numbers: an output would have 501.

    Args:
        first: rows of a file, as they are written.
        columns: as they are read, of those whose types nobody has given.
        dialect: how they are written.
        path: of the file.
    """
    strings = pa.concat_tables(first.tables)
    nulls = pa.array(dialect.conversion().null_values, pa.string())
    for each in columns:
        if not is_plain_number(each.type):
            continue
        is_code = compute.match_substring_regex(strings[each.name], CODE)
        is_null = compute.is_in(strings[each.name], nulls)
        at = compute.index(compute.and_not(is_code, is_null), True).as_py()
        if at >= 0:
            logger.warning(
                "the column %s holds numbers written with zeros before them, such as %s in %s, "
                "row %d, which the output will lack: to keep them, set source.types: {%s: string}",
                each.name,
                strings[each.name][at].as_py().strip(),
                path,
                first.row(at),
                each.name,
            )
