"""Rows as a Lance dataset."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import pyarrow as pa
from pydantic import ConfigDict

from tasks.errors import InvalidSpec
from tasks.kinds.blank_columns import with_blanks
from tasks.kinds.extras import require
from tasks.kinds.sinks.table_sink import TableSink
from tasks.kinds.tables.lance_columns import refuse_names, refuse_types
from tasks.kinds.tables.lance_output import DATA, STORAGE_VERSION, LanceOutput, stored
from tasks.kinds.tables.types import refuse_empty_objects
from tasks.protocol.ids import Ids
from tasks.protocol.records import Part


class LanceSink(TableSink):
    """Publishes into a Lance dataset, one transaction a run; it is created if there is none."""

    model_config = ConfigDict(title="Lance")
    kind: Literal["lance"] = "lance"

    @property
    def suffix(self) -> str:
        """End of a file's name."""
        return ".lance"

    def as_table(self) -> LanceOutput:
        """The dataset at the output's path."""
        _, _, url = self.opened()
        return LanceOutput(self.path, url, self.storage_options)

    def columns(self) -> pa.Schema | None:
        """The dataset's own; None where there is none yet."""
        return self.as_table().schema()

    def as_stored(self, schema: pa.Schema) -> pa.Schema:
        """A schema as the dataset has it.

        Raises:
            SchemaMismatch: a column holds objects without keys, or has a name or a type that
                Lance refuses or does not read again.
        """
        refuse_names(schema)
        refuse_types(schema)
        refuse_empty_objects(schema)
        return stored(schema)

    def check(self) -> None:
        """See that the dataset, where there is one, takes files as they are written here.

        Raises:
            InvalidSpec: the package is missing, the files are others, or parts are asked for.
        """
        require("sink.kind", self.kind, "lance", "lance")
        if self.partition_by:
            problem = "cannot partition a Lance dataset: leave it out, and let readers filter"
            raise InvalidSpec.at("sink.partition_by", self.partition_by, problem)
        obstacle = self.as_table().obstacle()
        if obstacle:
            problem = f"{obstacle}: write it again with lance.write_dataset, or use another path"
            raise InvalidSpec.at("sink.path", self.path, problem)

    def encode(self, rows: pa.Table) -> bytes:
        """Rows as one Lance file."""
        from lance.file import LanceFileWriter

        rows = rows.cast(stored(rows.schema))
        with TemporaryDirectory() as folder:
            path = Path(folder) / "rows.lance"
            with LanceFileWriter(str(path), rows.schema, version=STORAGE_VERSION) as writer:
                writer.write_batch(rows)
            return path.read_bytes()

    def decode(self, data: bytes) -> pa.Table:
        """Rows of a Lance file."""
        from lance.file import LanceFileReader

        with on_disk(data) as path:
            return LanceFileReader(path).read_all().to_table()

    def select(self, data: bytes, names: list[str], schema: pa.Schema) -> pa.Table:
        """Some columns of a Lance file; the others are not decoded.

        Raises:
            ArrowInvalid: it is none.
        """
        from lance.file import LanceFileReader

        if not data:  # at which Lance gives up in Rust, as no exception that anybody catches
            raise pa.ArrowInvalid("it is empty")
        with on_disk(data) as path:
            there = LanceFileReader(path).metadata().schema.names
            wanted = [name for name in names if name in there] or there[:1]  # it reads one at least
            rows = LanceFileReader(path, columns=wanted).read_all().to_table()
        return with_blanks(rows, map(schema.field, names)).select(names)

    def parts(self, rows: pa.Table, ids: Ids) -> list[Part]:
        """Rows as one file to stage, for the dataset's folder of data files."""
        return [replace(part, partition=f"{DATA}/") for part in super().parts(rows, ids)]


@contextmanager
def on_disk(data: bytes) -> Iterator[str]:
    """A file's content on the disk, where Lance reads it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.lance"
        path.write_bytes(data)
        yield str(path)
