"""How CSV files are written, as a spec says, and what their first rows tell."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import IO, Self

import pyarrow as pa
from pydantic import Field, field_validator, model_validator

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import NO_VALUE
from tasks.kinds.sources.csv_reading.dialect import SEPARATOR, ColumnTwice, Dialect
from tasks.kinds.sources.csv_reading.inferring import FirstRows, inferred, tell_of_codes
from tasks.kinds.sources.csv_reading.records import FileRecords, Records, line_ends, together
from tasks.kinds.sources.csv_reading.rows import Parser
from tasks.kinds.sources.encoded import EncodedSource
from tasks.kinds.sources.source import BadRow
from tasks.kinds.sources.text import blocks, without_first

BYTES_TO_INFER = 4 << 20
ONE_CHARACTER = r"^[\t\x20-\x7e]$"


class CsvFiles(EncodedSource):
    """CSV files."""

    delimiter: str = Field(
        default=",",
        pattern=ONE_CHARACTER,
        description="The character between two values. A first line that names it for Excel, as "
        "sep=; does, is not a row, and must name the same.",
    )
    quote_char: str = Field(
        default='"',
        pattern=ONE_CHARACTER,
        description="The character around values that contain delimiters or line ends; doubled, it "
        "stands for itself.",
    )
    skip_lines: int = Field(
        default=0,
        ge=0,
        description="Lines to skip at the beginning of each file, such as a comment above the "
        "header.",
    )
    column_names: list[str] | None = Field(
        default=None,
        min_length=1,
        description="Names of all columns, for files without a header. Empty: the first record "
        "names them.",
    )
    null_values: list[str] | None = Field(
        default=None,
        description="The only texts that mean null, in every column: include '' if values are left "
        "out. Empty: no value, NA, NULL, nan and the like mean null, except in text columns.",
    )

    @field_validator("column_names")
    @classmethod
    def _named_once(cls, names: list[str] | None) -> list[str] | None:
        if names and len(set(names)) < len(names):
            raise ValueError("name each column once")
        return names

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        if self.delimiter == self.quote_char:
            raise ValueError(
                f"delimiter and quote_char are both {self.delimiter!r}: change one of them; if no "
                "value is quoted, set quote_char to a character that no value contains"
            )
        return self

    @property
    def dialect(self) -> Dialect:
        """How the files' values are written."""
        return Dialect(self.delimiter, self.quote_char, self.null_values, self.encoding)

    def records(
        self, file: IO[bytes], path: str, num_columns: int = 1
    ) -> tuple[FileRecords, str | None]:
        """The file's records, and what is wrong with all of them; None where nothing is."""
        found = blocks(file, path, self.encoding, num_columns)
        lines = without_first(self.skip_lines, line_ends(found))
        records = FileRecords(Records(self.delimiter, self.quote_char).split(lines))
        first = next(records, b"")
        said = SEPARATOR.fullmatch(first) if isinstance(first, bytes) else None
        if said is None:
            records.put_back(first)
            return records, None
        if said[1] == self.delimiter.encode():
            return records, None
        return records, f"is not the one in the first line ({said[0].decode(errors='replace')!r})"

    def infer(
        self,
        file: IO[bytes],
        path: str,
        most_bytes: int = BYTES_TO_INFER,
        is_guessed: Callable[[str], bool] | None = None,
    ) -> tuple[pa.Schema, bool]:
        """The types of a file's first rows, and whether there are any.

        Args:
            file: to be read.
            path: its own.
            most_bytes: of values that tell.
            is_guessed: whether a column is read with the type that is found here; where given, it
                is told of codes among numbers.

        Raises:
            ColumnTwice: the header names a column twice.
            InvalidSpec: the file has a header, and `column_names` has the same; or it says itself
                that it has another delimiter.
        """
        dialect = self.dialect
        records, other = self.records(file, path)
        if other is not None:
            problem = f"{other} in {path}: set that one"
            raise InvalidSpec.at("source.delimiter", self.delimiter, problem)
        first = next(records, b"")
        if self.column_names:
            self.refuse_header(first, path)
            records.put_back(first)
        try:
            header = self.column_names or dialect.header(first)
        except ColumnTwice:
            raise
        except ValueError:
            return pa.schema([]), False  # reading it says what is wrong
        as_written = replace(dialect, null_values=None)
        texts = pa.schema([(name, pa.string()) for name in header])
        parser = Parser(as_written, header, texts, None if self.column_names else first)
        rows = chain.from_iterable(map(parser.rows, together(records)))
        if (seen := FirstRows(rows, most_bytes)).tables:
            found = inferred(seen, dialect, path)
            if is_guessed:
                guessed = [each for each in found if is_guessed(each.name)]
                tell_of_codes(seen, guessed, dialect, path)
            return found, True
        return pa.schema([each.with_metadata(NO_VALUE) for each in parser.schema]), False

    def refuse_header(self, first: bytes | BadRow, path: str) -> None:
        """See that a file's first record is a row, not the very names that `column_names` has.

        Raises:
            InvalidSpec: it is not: the header would be predicted.
        """
        if self.is_header(first):
            problem = f"is the header of {path}: leave it empty, for files that have one"
            raise InvalidSpec.at("source.column_names", self.column_names, problem)

    def is_header(self, first: bytes | BadRow) -> bool:
        """Whether a file's first record is the very names that `column_names` has."""
        with suppress(ValueError):
            return self.dialect.header(first) == self.column_names
        return False
