"""Rows from CSV files, of the columns that the first file with rows has, and their types."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from typing import IO, Any, ClassVar, Literal, Self

import pyarrow as pa
from pydantic import ConfigDict, Field, field_validator, model_validator

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import LATER_VALUE, NO_VALUE, has_no_value, is_text
from tasks.kinds.sources.compressed import CODECS
from tasks.kinds.sources.csv_reading.header import refuse_others, without_header
from tasks.kinds.sources.csv_reading.inferring import inferred, tell_of_text
from tasks.kinds.sources.csv_reading.records import Records, batches, line_ends
from tasks.kinds.sources.csv_reading.rows import SEPARATOR, ColumnTwice, Dialect, Parser
from tasks.kinds.sources.encoded import EncodedSource
from tasks.kinds.sources.given_types import CsvType, refuse_unread, with_given
from tasks.kinds.sources.source import BadRow, Read, pins_of, schema_of
from tasks.kinds.sources.text import blocks, without_first
from tasks.protocol.object_stat import Stat
from tasks.protocol.plan_file import Shard
from tasks.protocol.storage import FsspecStorage

BYTES_TO_INFER = 4 << 20
FILES_TO_ASK = 8
"""Of columns without a value in the first file: some never have one."""
OTHER_DELIMITERS = (";", "\t", "|")
ONE_CHARACTER = r"^[\t\x20-\x7e]$"


class CsvSource(EncodedSource):
    """Rows of CSV files."""

    model_config = ConfigDict(title="CSV files")
    kind: Literal["csv"] = "csv"
    delimiter: str = Field(
        default=",",
        pattern=ONE_CHARACTER,
        description="The character between two values. A first line that says so to Excel, as "
        "sep=; does, is no row, and must say the same.",
    )
    quote_char: str = Field(
        default='"',
        pattern=ONE_CHARACTER,
        description="The character around values with delimiters or line ends; doubled, it "
        "stands for itself.",
    )
    skip_lines: int = Field(
        default=0,
        ge=0,
        description="Lines at the beginning of each file that are none of the table's, as a "
        "comment above the header.",
    )
    column_names: list[str] | None = Field(
        default=None,
        min_length=1,
        description="Names of all columns, of files without a header; where empty, the first "
        "record names them.",
    )
    columns: list[str] | None = Field(
        default=None, description="Read only these columns; all where empty."
    )
    types: dict[str, CsvType] = Field(
        default={},
        description="Types of columns, in place of what the first rows suggest, as in zip: string "
        "for codes such as 00501, which else are the number 501. timestamp is written without an "
        "offset or Z, timestamp_utc with one. A row whose value does not fit is set aside. What is "
        "published keeps its types until a run with --replace-output.",
    )
    null_values: list[str] | None = Field(
        default=None,
        description="Texts that mean null, in every column, and no others: name '' too where "
        "values are left out. Where empty, no value, NA, NULL, nan and the like mean null, except "
        "in text columns.",
    )
    suffixes: ClassVar[tuple[str, ...]] = tuple(
        f"{name}{codec}" for name in (".csv", ".tsv") for codec in ("", *CODECS)
    )
    reads_on: ClassVar[bool] = True
    guesses_types: ClassVar[bool] = True

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
                f"delimiter and quote_char are both {self.delimiter!r}: give one of them another "
                "character, quote_char one that no value has where none is quoted"
            )
        return self

    def pin(self, storage: FsspecStorage, inputs: Sequence[Stat]) -> dict[str, Any]:
        """Infer names and types from the first file with rows; without rows all are strings.

        Raises:
            InvalidSpec: one of `columns` or `types` is not among the names; or the names can only
                be those of another delimiter; or all that there are come twice.
        """
        found, twice = pa.schema([]), None
        files = iter(inputs)
        for stat in files:
            try:
                with storage.open(stat.path) as file:
                    schema, has_rows = self.infer(file, stat.path)
            except ColumnTwice as error:
                twice = twice or (stat.path, error)
                continue
            found = schema if has_rows or not found.names else found
            if has_rows:
                found = self.with_later_values(storage, files, found)
                break
        if twice and not found.names:
            problem = f"cannot be read: {twice[1]}; rename one of them in the file, or have lines "
            problem += "above the header passed over by source.skip_lines"
            raise InvalidSpec.at("source.path", twice[0], problem)
        self.refuse_one_column(found.names)
        missing = [name for name in self.columns or [] if name not in found.names]
        if missing and found.names:
            known = ", ".join(found.names)
            raise InvalidSpec.at("source.columns", missing, f"is not among the columns {known}")
        if self.columns and found.names:
            found = pa.schema([found.field(name) for name in dict.fromkeys(self.columns)])
        if found.names:
            refuse_unread(self.types, found.names)
            found = with_given(found, self.types)
        return pins_of(found)

    def with_later_values(
        self, storage: FsspecStorage, files: Iterator[Stat], found: pa.Schema
    ) -> pa.Schema:
        """Columns without a value in the first file, marked where one of the next has some.

        They are text all the same, as codes such as 00501 may come: who means numbers is told how
        to say so, before a filter or a model that wants them ends the run.

        Args:
            storage: where the files lie.
            files: those after the first one with rows.
            found: what that one tells.
        """
        names = {*(self.columns or found.names)}
        wanted = pa.schema([each for each in found if each.name in names])
        unknown = {each.name for each in wanted if has_no_value(each)} - {*self.types}
        for stat in islice(files, FILES_TO_ASK):
            if not unknown:
                break
            # What has other columns is set aside row by row, whatever values it has.
            passes_by = ValueError, InvalidSpec, FileNotFoundError
            with suppress(*passes_by), storage.open(stat.path) as file:
                seen, _ = self.infer(file, stat.path, BYTES_TO_INFER // FILES_TO_ASK)
                refuse_others(seen.names, wanted, takes_new=bool(self.columns))
                told = [e for e in seen if e.name in unknown and not has_no_value(e)]
                for each in told:
                    unknown.remove(each.name)
                    at = found.get_field_index(each.name)
                    found = found.set(at, found.field(at).with_metadata(LATER_VALUE))
                if others := [each for each in told if not is_text(each.type)]:
                    tell_of_text(stat.path, others)
        return found

    def retyped(self, pins: dict[str, Any]) -> dict[str, Any]:
        """See Source; a column of another run's files alone is left to those."""
        found = schema_of(pins["schema"])
        types = {name: each for name, each in self.types.items() if name in found.names}
        return pins_of(with_given(found, types))

    def infer(
        self, file: IO[bytes], path: str, most_bytes: int = BYTES_TO_INFER
    ) -> tuple[pa.Schema, bool]:
        """The types of a file's first rows, and whether there are any.

        Args:
            file: to be read.
            path: its own.
            most_bytes: of values that tell.

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
            records = chain([first] if first else [], records)
        try:
            header = self.column_names or dialect.header(first)
        except ColumnTwice:
            raise
        except ValueError:
            return pa.schema([]), False  # reading it says what is wrong
        as_written = replace(dialect, null_values=None)
        parser = Parser(as_written, header, pa.schema([(name, pa.string()) for name in header]))
        tables, size = [], 0
        for read in chain.from_iterable(map(parser.rows, batches(records))):
            if not isinstance(read, BadRow):
                tables.append(read)
                size += read.nbytes
            if size > most_bytes:
                break
        if tables:
            return inferred(pa.concat_tables(tables), dialect), True
        return pa.schema([each.with_metadata(NO_VALUE) for each in parser.schema]), False

    def refuse_header(self, first: bytes | BadRow, path: str) -> None:
        """See that a file's first record is a row, not the very names that `column_names` has.

        Raises:
            InvalidSpec: it is not: the header would be predicted.
        """
        with suppress(ValueError):
            if self.dialect.header(first) == self.column_names:
                problem = f"is the header of {path}: leave it empty, for files that have one"
                raise InvalidSpec.at("source.column_names", self.column_names, problem)

    def refuse_one_column(self, names: list[str]) -> None:
        """See that the header is no line of another delimiter; who names the column means it.

        Raises:
            InvalidSpec: it is.
        """
        others = [each for each in OTHER_DELIMITERS if len(names) == 1 and each in names[0]]
        if others and names != self.columns:
            problem = f"makes one column of the header {names[0]!r}: did you mean {others[0]!r}?"
            raise InvalidSpec.at("source.delimiter", self.delimiter, problem)

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield the rows; a row that is ragged or does not fit the types is a bad row."""
        schema = schema_of(pins["schema"])
        with storage.open(shard.path) as file:
            records, other = self.records(file, shard.path)
            if other is not None:
                error = ValueError(f"source.delimiter: {self.delimiter!r} {other}")
                header = b"" if self.column_names else next(records, b"")
                yield from without_header(header, records, error)
                return
            if self.column_names is None:
                first = next(records, None)
                if first is None:
                    return
                try:
                    names = self.dialect.header(first)
                    refuse_others(names, schema, takes_new=bool(self.columns))
                except ValueError as error:
                    yield from without_header(first, records, error)
                    return
            parser = Parser(self.dialect, self.column_names or names, schema)
            for batch in batches(records):
                yield from parser.rows(batch)

    @property
    def dialect(self) -> Dialect:
        """How the files' values are written."""
        return Dialect(self.delimiter, self.quote_char, self.null_values, self.encoding)

    def records(self, file: IO[bytes], path: str) -> tuple[Iterator[bytes | BadRow], str | None]:
        """The file's records, and what is wrong with all of them; None where nothing is."""
        lines = without_first(self.skip_lines, line_ends(blocks(file, path, self.encoding)))
        records = Records(self.delimiter, self.quote_char).split(lines)
        first = next(records, b"")
        said = SEPARATOR.fullmatch(first) if isinstance(first, bytes) else None
        if said is None:
            return chain([first] if first else [], records), None
        if said[1] == self.delimiter.encode():
            return records, None
        return records, f"is not what the first line says ({said[0].decode(errors='replace')!r})"
