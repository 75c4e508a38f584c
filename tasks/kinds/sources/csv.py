"""Rows from CSV files, of the columns and types that the first file with rows has."""

import csv
import io
import re
from collections.abc import Iterator
from itertools import chain
from typing import IO, Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.csv as pc
from pydantic import ConfigDict, Field

from tasks.errors import InvalidSpec
from tasks.kinds.sources.source import ROWS_PER_READ, BadRow, Read, Source
from tasks.kinds.sources.text import (
    BYTES_PER_BLOCK,
    CODECS,
    LONGEST_LINE,
    DamagedFile,
    LongLine,
    bad_row,
    blocks,
    halved,
    not_utf8,
    universal,
    whole_lines,
)
from tasks.protocol.plan_file import Shard
from tasks.protocol.storage import FsspecStorage, Stat

BYTES_TO_INFER = 4 << 20
ONE_CHARACTER = r"^[\t\x20-\x7e]$"
UNCLOSED = "a quote is opened in this line and not closed"
CONVERSION = re.compile(r"In CSV column #(\d+):.*?(conversion error to .*)", re.DOTALL)


class CsvSource(Source):
    """Rows of CSV files with a header."""

    model_config = ConfigDict(title="CSV files")
    kind: Literal["csv"] = "csv"
    delimiter: str = Field(
        default=",", pattern=ONE_CHARACTER, description="The character between two values."
    )
    quote_char: str = Field(
        default='"',
        pattern=ONE_CHARACTER,
        description="The character around values with delimiters or line ends; doubled, it "
        "stands for itself.",
    )
    columns: list[str] | None = Field(
        default=None, description="Read only these columns; all where empty."
    )
    null_values: list[str] | None = Field(
        default=None,
        description="Texts that mean null, in every column. Where empty, no value, NA, NULL, "
        "nan and the like mean null, except in text columns.",
    )
    suffixes: ClassVar[tuple[str, ...]] = tuple(
        f"{name}{codec}" for name in (".csv", ".tsv") for codec in ("", *CODECS)
    )

    def pin(self, storage: FsspecStorage, inputs: list[Stat]) -> dict[str, Any]:
        """Infer names and types from the first file with rows; without rows all are strings.

        Raises:
            InvalidSpec: one of `columns` is not among the names.
        """
        found = pa.schema([])
        for stat in inputs:
            with storage.open(stat.path) as file:
                schema, has_rows = self.infer(file, stat.path)
            found = schema if has_rows or not found.names else found
            if has_rows:
                break
        missing = [name for name in self.columns or [] if name not in found.names]
        if missing and found.names:
            known = ", ".join(found.names)
            raise InvalidSpec.at("source.columns", missing, f"is not among the columns {known}")
        if self.columns and found.names:
            found = pa.schema([found.field(name) for name in dict.fromkeys(self.columns)])
        return {"schema": found.serialize().to_pybytes().hex()}

    def infer(self, file: IO[bytes], path: str) -> tuple[pa.Schema, bool]:
        """The types of a file's first rows, and whether there are any."""
        records = self.records(file, path)
        try:
            header = self.header(next(records, b""))
        except ValueError:
            return pa.schema([]), False  # reading it says what is wrong
        as_written = self.model_copy(update={"null_values": None})
        parser = Parser(as_written, header, pa.schema([(name, pa.string()) for name in header]))
        tables, size = [], 0
        for read in chain.from_iterable(map(parser.rows, batches(records))):
            if not isinstance(read, BadRow):
                tables.append(read)
                size += read.nbytes
            if size > BYTES_TO_INFER:
                break
        return self.inferred(pa.concat_tables(tables)) if tables else (parser.schema, False)

    def inferred(self, strings: pa.Table) -> tuple[pa.Schema, bool]:
        """The types of values that were read as strings."""
        written = io.BytesIO()
        pc.write_csv(strings, written)
        written.seek(0)
        types = pc.read_csv(
            written,
            read_options=pc.ReadOptions(
                use_threads=False, block_size=written.getbuffer().nbytes + 1
            ),
            parse_options=pc.ParseOptions(newlines_in_values=True),
            convert_options=self.conversion(),
        ).schema
        settled = [
            field.with_type(pa.string()) if pa.types.is_null(field.type) else field
            for field in types
        ]
        return pa.schema(settled), True

    def conversion(self, schema: pa.Schema | None = None) -> pc.ConvertOptions:
        """How values become what the schema says."""
        options = pc.ConvertOptions(strings_can_be_null=self.null_values is not None)
        if self.null_values is not None:
            options.null_values = self.null_values
        if schema is not None:
            options.column_types = schema
            options.include_columns = schema.names
        return options

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield the rows; a row that is ragged or does not fit the types is a bad row."""
        schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(pins["schema"])))
        with storage.open(shard.path) as file:
            records = self.records(file, shard.path)
            first = next(records, None)
            if first is None:
                return
            try:
                header = self.header(first)
                self.compare(header, schema)
            except ValueError as error:
                yield first if isinstance(first, BadRow) else bad_row(str(error), first)
                return
            parser = Parser(self, header, schema)
            for batch in batches(records):
                yield from parser.rows(batch)

    def records(self, file: IO[bytes], path: str) -> Iterator[bytes | BadRow]:
        """The file's records."""
        return Records(self.delimiter, self.quote_char).split(line_ends(blocks(file, path)))

    def values(self, record: bytes) -> list[str]:
        """A record's values as they are written."""
        text = io.StringIO(record.decode(), newline="")
        try:
            return next(csv.reader(text, delimiter=self.delimiter, quotechar=self.quote_char))
        except csv.Error as error:
            raise ValueError(str(error)) from error

    def header(self, record: bytes | BadRow) -> list[str]:
        """The names in a file's first record."""
        if isinstance(record, BadRow):
            raise ValueError("the header cannot be read")
        try:
            names = self.values(record) if record else []
        except UnicodeDecodeError as error:
            raise ValueError(f"the header cannot be read: {not_utf8(error)}") from error
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"the header has columns twice: {', '.join(map(repr, twice))}")
        return names

    def compare(self, header: list[str], schema: pa.Schema) -> None:
        """Check that a file has the pinned columns, in any order."""
        missing = [repr(name) for name in schema.names if name not in header]
        new = [repr(name) for name in header if name not in schema.names and not self.columns]
        found = [f"lacks {', '.join(missing)}"] * bool(missing)
        found += [f"has the new {', '.join(new)}"] * bool(new)
        if found:
            raise ValueError(f"the header {' and '.join(found)}, unlike the first file with rows")


class Parser:
    """Makes rows of the records of one file."""

    def __init__(self, source: CsvSource, header: list[str], schema: pa.Schema) -> None:
        self.source = source
        self.header = header
        self.schema = schema
        self.parsing = pc.ParseOptions(
            delimiter=source.delimiter,
            quote_char=source.quote_char,
            newlines_in_values=True,
            ignore_empty_lines=False,
        )
        self.conversion = source.conversion(schema)

    def rows(self, batch: "list[bytes] | BadRow") -> Iterator[Read]:
        """Records as tables and bad rows."""
        if isinstance(batch, BadRow):
            yield batch
        else:
            yield from halved(batch, self.table, self.explain)

    def table(self, records: list[bytes]) -> pa.Table:
        """Records as a table with a row for each."""
        block = b"\n".join(records) + b"\n"
        block.decode()  # Arrow looks only at the columns it reads
        if b"\x00" in block:
            raise ValueError("the row has a NUL byte")
        reading = pc.ReadOptions(
            use_threads=False, block_size=len(block) + 1, column_names=self.header
        )
        table = pc.read_csv(io.BytesIO(block), reading, self.parsing, self.conversion)
        if len(table) != len(records):
            raise ValueError("the row has a carriage return outside quotes")
        return table

    def explain(self, record: bytes, error: Exception) -> str:
        """Why a record is no row, for a person."""
        if isinstance(error, UnicodeDecodeError):
            return not_utf8(error).replace("line", "row")
        conversion = CONVERSION.search(str(error))
        if conversion:
            return f"column {self.header[int(conversion[1])]!r}: {conversion[2]}"
        try:
            values = self.source.values(record)
        except (ValueError, StopIteration):
            return str(error)
        if len(values) != len(self.header):
            return f"the row has {len(values)} values for {len(self.header)} columns"
        return str(error)


class Records:
    """Cuts lines into records: a line end within quotes does not end one."""

    def __init__(self, delimiter: str, quote: str) -> None:
        d, q = (re.escape(each.encode()) for each in (delimiter, quote))
        # Possessive, so that no line takes more than linear time.
        closing = rb"(?:[^%b]|%b%b)*+%b[^%b]*+" % (q, q, q, q, d)
        field = rb"(?:%b%b|(?!%b)[^%b]*+)" % (q, closing, q, d)
        self.quote = quote.encode()
        self.whole = re.compile(rb"%b(?:%b%b)*+" % (field, d, field))
        self.rest = re.compile(rb"%b(?:%b%b)*+" % (closing, d, field))

    def split(self, found: Iterator[bytes]) -> Iterator[bytes | BadRow]:
        """The records in blocks of a file; blank lines are none."""
        held: list[bytes] = []
        size = 0
        try:
            for line in lines_of(found):
                size += len(line) + 1
                if isinstance(line, LongLine) or size > LONGEST_LINE:
                    yield from self.alone([*held, line])
                elif not (self.rest.fullmatch(line) if held else self.is_whole(line)):
                    held.append(line)
                    continue
                elif line.rstrip(b"\r") or held:
                    yield b"\n".join([*held, line]).removesuffix(b"\r")
                held, size = [], 0
            yield from self.alone(held)
        except DamagedFile as error:
            yield BadRow(error)

    def is_whole(self, line: bytes) -> bool:
        """Whether all quotes that are opened in a line are closed in it."""
        return self.quote not in line or self.whole.fullmatch(line) is not None

    def alone(self, lines: list[bytes]) -> Iterator[bytes | BadRow]:
        """Lines after a quote that is never closed: each is taken for a record."""
        for line in lines:
            if isinstance(line, LongLine):
                yield bad_row(f"the line is longer than {LONGEST_LINE >> 20} MiB", line)
            elif not self.is_whole(line):
                yield bad_row(UNCLOSED, line)
            elif line.rstrip(b"\r"):
                yield line.removesuffix(b"\r")


def line_ends(found: Iterator[bytes]) -> Iterator[bytes]:
    """Blocks whose lines end in newlines: old files that know only carriage returns are mended.

    In others a carriage return stays: within quotes it is part of a value.
    """
    first = next(found, b"")
    together = chain([first], found)
    return universal(together) if b"\r" in first and b"\n" not in first else together


def lines_of(found: Iterator[bytes]) -> Iterator[bytes]:
    """Lines without their newlines."""
    for block in whole_lines(found):
        if isinstance(block, LongLine):
            yield block
        else:
            yield from block.split(b"\n")[:-1]


def batches(records: Iterator[bytes | BadRow]) -> "Iterator[list[bytes] | BadRow]":
    """Records to be parsed in one go, and bad rows between them."""
    batch: list[bytes] = []
    size = 0
    for record in records:
        if isinstance(record, BadRow) or len(batch) == ROWS_PER_READ or size > BYTES_PER_BLOCK:
            if batch:
                yield batch
            batch, size = [], 0
        if isinstance(record, BadRow):
            yield record
        else:
            batch.append(record)
            size += len(record)
    if batch:
        yield batch
