"""How the values of CSV files are written."""

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv as pc

from tasks.kinds.sources.source import BadRow
from tasks.kinds.sources.text import MOST_COLUMNS, not_utf8

SEPARATOR = re.compile(rb'"?sep=(.)"?', re.IGNORECASE | re.DOTALL)
"""A first line that tells Excel, and is none of the table's, what stands between values."""


class ColumnTwice(ValueError):
    """A header names a column twice."""


@dataclass(frozen=True)
class Dialect:
    """How values are written."""

    delimiter: str
    quote_char: str
    null_values: list[str] | None
    """Texts that mean null, in every column; None: Arrow's own, except in text columns."""
    encoding: str | None = None
    """As the spec names it; records are UTF-8 all the same, but for what it has not."""

    def values(self, record: bytes) -> list[str]:
        """A record's values as they are written."""
        text = io.StringIO(record.decode(), newline="")
        try:
            return next(csv.reader(text, delimiter=self.delimiter, quotechar=self.quote_char))
        except csv.Error as error:
            raise ValueError(str(error)) from error

    def is_ragged(self, record: bytes, num_columns: int) -> bool:
        """Whether a record surely has more values than there are columns, or fewer."""
        try:
            return len(self.values(record)) != num_columns
        except (ValueError, StopIteration):
            return False

    def header(self, record: bytes | BadRow) -> list[str]:
        """The names in a file's first record."""
        if isinstance(record, BadRow):
            raise ValueError("the header cannot be read")
        try:
            names = self.values(record) if record else []
        except UnicodeDecodeError as error:
            raise ValueError(
                f"the header cannot be read: {not_utf8(error, self.encoding)}"
            ) from error
        if len(names) > MOST_COLUMNS:
            raise ValueError(f"the header has {len(names):,} columns; at most {MOST_COLUMNS:,} do")
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise ColumnTwice(f"the header has columns twice: {', '.join(map(repr, twice))}")
        return names

    def conversion(self, schema: pa.Schema | None = None) -> pc.ConvertOptions:
        """How values become what the schema says."""
        options = pc.ConvertOptions(strings_can_be_null=self.null_values is not None)
        if self.null_values is not None:
            options.null_values = self.null_values
        if schema is not None:
            options.column_types = schema
            options.include_columns = schema.names
            options.include_missing_columns = True  # which files may lack is seen by their headers
        return options


def escaped_quotes(dialect: Dialect) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Quotes behind a backslash that may close a value which goes on, and those that do.

    Arrow takes it for the end, and what follows for more of the value, another one than is meant.
    The first are quickly looked for, and hardly ever there where quotes are doubled.
    """
    d, q = (re.escape(each.encode()) for each in (dialect.delimiter, dialect.quote_char))
    opened, within = rb"(?:\A|\n|%b)%b" % (d, q), rb"(?:[^%b\\]|%b%b|\\(?!%b))*+" % (q, q, q, q)
    escaped = rb"\\%b[^%b%b\r\n]" % (q, q, d)
    return re.compile(escaped), re.compile(opened + within + escaped)
