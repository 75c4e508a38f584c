"""Reads a run's output back, a few columns of a few files at a time."""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import IO

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.first_line import first_line
from tasks.kinds.hive import folder_values
from tasks.kinds.sinks import Sink
from tasks.kinds.sources.fitting import DATA_ERRORS, data_error
from tasks.protocol.asked_at_once import fetched
from tasks.protocol.read_back import decoded
from tasks.protocol.storage import FsspecStorage

READERS = 8
"""Files in memory at a time: storages answer late, and none must fill the memory."""
BYTES_READ_AHEAD = 256 << 20
"""Of files in memory at a time, unless one alone has more: one may have a gigabyte."""
SMALL_BYTES = 8 << 20
"""Files up to this size are read whole: one request to an object store instead of three."""
NOT_OURS = (*DATA_ERRORS, ValueError, LookupError, TypeError)
"""What decoders raise of a file that is not as it was written; not all that storages do."""
CHANGED = (
    "is not as it was published ({}): it is damaged, or was moved or rewritten (for example by a "
    "table's compaction), so its rows cannot be used"
)
STAGED_ANEW = (
    "Restore it from a copy; or, if its run is not published, delete it and run again, which "
    "predicts its rows again"
)


@dataclass(frozen=True)
class OutputFile:
    """A file of rows, staged or published."""

    path: str
    rows: int
    partition: str = ""
    """Hive folders; their columns are not in the file."""
    size: int | None = None
    """In bytes, where that is known."""


@dataclass(frozen=True)
class OutputReader:
    """Reads some columns of an output, each file once."""

    storage: FsspecStorage
    sink: Sink
    schema: pa.Schema
    """Of the whole output, columns that became folders included."""
    names: list[str]

    def stream(self, files: Iterable[OutputFile]) -> Iterator[pa.Table]:
        """Rows file by file, in order."""
        return fetched(self.read, files, READERS, lambda file: file.size or 0, BYTES_READ_AHEAD)

    def read(self, file: OutputFile) -> pa.Table:
        """One file's rows.

        Raises:
            InvalidSpec: it cannot be read; says what is wrong with it.
            FileNotFoundError: it is gone.
        """
        rows = blank(file.rows)
        if self.inside:
            content = self.storage.read(file.path)
            rows = decoded(file.path, content, self.select, STAGED_ANEW)
        return self.with_folders(rows, file)

    def select(self, content: bytes) -> pa.Table:
        """The columns to read of a file's content."""
        rows = self.sink.select(content, self.inside, self.schema_inside)
        return with_decimals(rows, self.schema)

    def pieces(self, file: OutputFile, num_rows: int) -> Iterator[pa.Table]:
        """One file's rows, so many at a time where the format allows it.

        Raises:
            InvalidSpec: it is not as it was published; says what is wrong with it.
            FileNotFoundError: it is gone.
        """
        if not self.inside:
            yield self.with_folders(blank(file.rows), file)
            return
        with self.open(file) as opened:
            try:
                for rows in self.sink.pieces(opened, self.inside, self.schema_inside, num_rows):
                    yield self.with_folders(with_decimals(rows, self.schema), file)
            except NOT_OURS as error:
                said = first_line(data_error(error))
                raise InvalidSpec.at("sink.path", file.path, CHANGED.format(said)) from error

    def open(self, file: OutputFile) -> IO[bytes]:
        """A file's content."""
        if file.size is not None and file.size <= SMALL_BYTES:
            return io.BytesIO(self.storage.read(file.path))
        return self.storage.open(file.path)

    @cached_property
    def types_read(self) -> pa.Schema:
        """Columns of the files as they are read again: of such as hold text, times are that."""
        if not self.sink.is_found_by_listing:  # to ask a table for its own would say no more
            return self.schema_inside
        none = self.sink.encode(self.schema_inside.empty_table())
        rows = self.sink.select(none, self.inside, self.schema_inside)
        return with_decimals(rows, self.schema).schema

    @property
    def folders(self) -> set[str]:
        """Columns that became folders."""
        return {each.name for each in self.schema if each.name in self.sink.partition_by}

    @property
    def inside(self) -> list[str]:
        """Columns to read that are in the files."""
        return [name for name in self.names if name not in self.folders]

    @property
    def schema_inside(self) -> pa.Schema:
        """Of the files themselves."""
        return pa.schema([each for each in self.schema if each.name not in self.folders])

    def with_folders(self, rows: pa.Table, file: OutputFile) -> pa.Table:
        """A file's rows with the columns to read that became its folders."""
        for name, text in folder_values(file.partition).items():
            if name in self.names:
                value = folder_value(text, self.schema.field(name).type)
                rows = rows.append_column(name, pa.repeat(value, len(rows)))
        return rows


def folder_value(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """A folder's value as its column has it; as text where Arrow reads none of the type."""
    value = pa.scalar(text, pa.string())
    try:
        return value.cast(kind)
    except pa.ArrowNotImplementedError:  # times of day and spans
        return value


def with_decimals(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with decimals as they were, which some sinks write as text."""
    for at, name in enumerate(rows.column_names):
        kind = schema.field(name).type
        if pa.types.is_decimal(kind) and pa.types.is_string(rows[name].type):
            rows = rows.set_column(at, name, rows[name].cast(kind))
    return rows


def blank(num_rows: int) -> pa.Table:
    """Rows without columns."""
    return pa.table({"": pa.nulls(num_rows)}).select([])
