"""What sinks have in common that make their files the data files of a table."""

import re
from typing import Any, ClassVar, Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from tasks.errors import InvalidSpec, SchemaMismatch
from tasks.kinds.column_types import has_no_value, has_null
from tasks.kinds.hive import folder_values
from tasks.kinds.sinks.parquet import ParquetSink
from tasks.kinds.sinks.sink import Sink
from tasks.kinds.tables.types import (
    as_held,
    as_narrow,
    as_strict,
    check_fit,
    check_key,
    check_order,
    check_partition_types,
    plain_schema,
)
from tasks.protocol.ids import Ids
from tasks.protocol.records import Part
from tasks.protocol.storage import FsspecStorage, open_storage

NO_PART = re.compile(r"^$|[\x00-\x1f\x7f]")
"""Names of columns that cannot be folders: Iceberg has no empty one, and Delta escapes in its log
what it does not escape where it looks for files."""
LOOKED_AT: dict[str, pa.Schema | None] = {}
"""Columns of tables by URL, as this process has last seen them: no write asks a catalog again."""


class TableSink(Sink):
    """Publishes files that a table's log names: its readers see only complete versions."""

    # Which of two rows counts is asked where both have been predicted: they stay as they are.
    not_in_identity: ClassVar[frozenset[str]] = Sink.not_in_identity | {
        "evolve_schema",
        "newest_by",
    }
    is_found_by_listing: ClassVar[bool] = False
    kind: Any  # of each table
    evolve_schema: bool = Field(
        default=False,
        description="Add columns that the table lacks, also those that first appear in a later "
        "run's inputs. Off: they are refused.",
    )
    mode: Literal["append", "replace", "upsert"] = Field(  # type: ignore[assignment]  # one more
        default="append",
        description="append adds the rows of new inputs; replace makes every run a complete "
        "version; upsert adds rows and removes those with the same key that earlier runs "
        "published.",
    )
    key: list[str] = Field(
        default=[],
        description="Columns whose values together identify a row, for mode upsert; none may be "
        "missing. Rows that a step made of one row, such as the chunks of a text, may share a key: "
        "they replace all published rows of that key.",
    )
    newest_by: str | None = Field(
        default=None,
        description="Column whose greatest value decides which row is published if a run has "
        "several with the same key, such as updated_at. Empty: a run with two such rows is not "
        "published.",
    )

    @model_validator(mode="after")
    def _a_key_to_upsert_by(self) -> Self:
        if (self.mode == "upsert") != bool(self.key):
            raise ValueError(
                "mode: upsert and key (the columns that identify a row) must be set together"
            )
        if self.newest_by is not None and not self.key:
            raise ValueError(
                "newest_by is only for mode: upsert, where one row of each key is kept"
            )
        return self

    @property
    def reads(self) -> dict[str, list[str]]:
        """Columns that must be published, by the field of the spec that names them."""
        newest_by = [self.newest_by] if self.newest_by else []
        return {**super().reads, "key": self.key, "newest_by": newest_by}

    @property
    def takes_new_columns(self) -> bool:
        """Whether rows may have columns that the table lacks; those that are there have nothing."""
        return self.evolve_schema

    @property
    def row_key(self) -> list[str]:
        """Columns that name a row, where rows replace published ones of the same name."""
        return self.key

    @property
    def newest(self) -> str | None:
        """Column that tells which of a run's rows of one name is published."""
        return self.newest_by

    def columns(self) -> pa.Schema | None:
        """The table's own; None where there is no table yet."""
        raise NotImplementedError

    def look_at_columns(self) -> pa.Schema | None:
        """The table's own as they are now; remembered."""
        _, _, url = self.opened()
        LOOKED_AT[url] = self.columns()
        return LOOKED_AT[url]

    def known_columns(self) -> pa.Schema:
        """The table's own as they were last seen; of no table, none."""
        _, _, url = self.opened()
        found = LOOKED_AT[url] if url in LOOKED_AT else self.look_at_columns()
        return found or pa.schema([])

    def as_files(self) -> Sink:
        """Parquet files of the same rows."""
        names = ("path", "storage_options", "types", "partition_by", "rows_per_file")
        same = {name: getattr(self, name) for name in names}
        return ParquetSink(**same, of_growing_table=self.evolve_schema)

    def as_stored(self, schema: pa.Schema) -> pa.Schema:
        """A run's schema in the table's types.

        Raises:
            SchemaMismatch: it has no type for a column.
        """
        raise NotImplementedError

    def schema_for(self, rows: pa.Schema) -> pa.Schema:
        """The run's output schema, of the first rows it writes.

        Raises:
            InvalidSpec: the table has other columns, or cannot be parted by one.
            SchemaMismatch: no table has a type for a column.
        """
        there = self.look_at_columns()
        known = {each.name: each.type for each in there or ()}
        told = [pa.null() if has_no_value(each) else each.type for each in rows]
        types = [
            known.get(name, kind) if has_null(kind) else kind
            for name, kind in zip(rows.names, told, strict=True)
        ]
        schema = super().schema_for(pa.schema(zip(rows.names, types, strict=True)))
        wanted = self.as_stored(schema)
        check_partition_types(wanted, self.partition_by)
        check_key(wanted, self.key)
        check_order(wanted, self.newest_by)
        if there is not None:
            wanted = as_narrow(wanted, schema, there)
            check_fit(self.path, wanted, there, evolve=self.evolve_schema)
        new = [each for each in wanted if each.name not in known]
        self.check_names(pa.schema([*(there or ()), *new]))
        return schema

    def check_names(self, columns: pa.Schema) -> None:
        """See that the table can have all of these columns, its own and the run's.

        Raises:
            InvalidSpec: names those that it cannot have side by side.
        """

    def parts(self, rows: pa.Table, ids: Ids) -> list[Part]:
        """Rows as files to stage, one for each partition.

        Raises:
            InvalidSpec: a row has no key, or lacks a value that the table must have; or the
                partition columns do not do.
        """
        refuse_keyless(rows, self.key)
        refuse_missing(self.path, rows, self.known_columns())
        return super().parts(rows, ids)

    def opened(self) -> tuple[FsspecStorage, str, str]:
        """The output's storage, its path there, and its whole URL."""
        storage, path = open_storage(self.path, self.storage_options)
        return storage, path, storage.url_of(path)


class ParquetTableSink(TableSink, ParquetSink):
    """The same of tables whose data files are Parquet."""

    @property
    def may_lack_columns(self) -> bool:
        """Whatever evolve_schema says by now."""
        return True

    def partition_columns(self) -> list[str] | None:
        """What parts the table; None where there is no table yet."""
        raise NotImplementedError

    def check(self) -> None:
        """See that the table, where there is one, is parted as the rows will be.

        Raises:
            InvalidSpec: it is not, or no table can be.
        """
        if bad := [name for name in self.partition_by if NO_PART.search(name)]:
            problem = (
                "cannot partition a table: its files would not be found, or its transaction "
                "would fail after the run is decided: rename the column in a rename step"
            )
            raise InvalidSpec.at("sink.partition_by", bad, problem)
        there = self.partition_columns()
        if there is None or there == self.partition_by:
            return
        columns = self.columns()
        plain = columns is not None and {*there} <= {*columns.names}
        # A transform of a column's values, as day(at), is none that files here can have.
        way_out = (
            "set it to that, or use another path"
            if plain
            else "use another path, or partition the table by columns"
        )
        problem = f"is not how the table at {self.path} is partitioned, {there}: {way_out}"
        raise InvalidSpec.at("sink.partition_by", self.partition_by, problem)

    def as_stored(self, schema: pa.Schema) -> pa.Schema:
        """A run's schema in types that all such tables have."""
        return plain_schema(schema)

    def encode(self, rows: pa.Table) -> bytes:
        """Rows as one Parquet file, in types that the table has, and as strict as it.

        An Iceberg table takes no file for a column that must have values which says that one may
        be missing.

        Raises:
            SchemaMismatch: a value has no place in its column's type.
        """
        there = self.known_columns()
        try:
            stored = as_narrow(plain_schema(rows.schema), rows.schema, there)
            return super().encode(as_held(rows, as_strict(stored, there)))
        except (ValueError, pa.ArrowNotImplementedError) as error:
            raise SchemaMismatch(
                f"a {self.kind} table cannot hold a value: {error}; convert it in a step, or "
                "leave the column out with sink.keep_columns"
            ) from error

    def select(self, data: bytes, names: list[str], schema: pa.Schema) -> pa.Table:
        """Some columns of such a file, in the run's types."""
        rows = super().select(data, names, schema)
        return rows.cast(pa.schema([schema.field(name) for name in names]))

    def parts(self, rows: pa.Table, ids: Ids) -> list[Part]:
        """Rows as files to stage, one for each partition.

        Raises:
            InvalidSpec: a partition column is missing, has too many values, or an empty text.
        """
        parts = super().parts(rows, ids)
        for name in self.partition_by:
            if any(folder_values(part.partition)[name] == "" for part in parts):
                problem = "has empty texts, which tables treat as missing: write another word"
                raise InvalidSpec.at("sink.partition_by", name, problem)
        return parts


def refuse_keyless(rows: pa.Table, key: list[str]) -> None:
    """Refuse rows without a key.

    Raises:
        InvalidSpec: names the columns in which some have none.
    """
    missing = [name for name in key if rows[name].null_count]
    if missing:
        problem = "is missing in some rows: leave these out in a step, or use another key"
        raise InvalidSpec.at("sink.key", missing, problem)


def refuse_missing(place: str, rows: pa.Table, there: pa.Schema) -> None:
    """Refuse rows without a value that a table must have.

    Raises:
        InvalidSpec: names the columns, and the ways out.
    """
    names = {*rows.column_names}
    needed = [each.name for each in there if not each.nullable and each.name in names]
    missing = [name for name in needed if rows[name].null_count]
    if missing:
        problem = (
            f"is a table whose columns {missing} must have values, but some rows have none: fill "
            "them in or leave these rows out in a step, or use another path"
        )
        raise InvalidSpec.at("sink.path", place, problem)
