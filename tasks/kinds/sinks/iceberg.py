"""Rows as an Iceberg table."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self

import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import is_list
from tasks.kinds.extras import require
from tasks.kinds.sinks.table_sink import ParquetTableSink
from tasks.kinds.tables.iceberg import NAME, CatalogProperties
from tasks.kinds.tables.iceberg_output import IcebergOutput


class IcebergSink(ParquetTableSink):
    """Publishes into an Iceberg table, one transaction a run; it is created if there is none."""

    model_config = ConfigDict(title="Iceberg")
    not_in_identity: ClassVar[frozenset[str]] = ParquetTableSink.not_in_identity | {"catalog"}
    keeps_partition_columns: ClassVar[bool] = True
    kind: Literal["iceberg"] = "iceberg"
    catalog: CatalogProperties = Field(
        default={},
        description="Properties of the catalog as pyiceberg takes them, such as type (sql, rest, "
        "glue), uri and warehouse; ${NAME} stands for an environment variable. Empty: an SQLite "
        "file beside the output, <path>.catalog.db.",
    )
    table: str | None = Field(
        default=None,
        pattern=f"^{NAME.pattern}$",
        description="Name in the catalog, as in analytics.predictions. Empty: default and the last "
        "part of the path. The table's location is the path.",
    )

    def as_table(self) -> IcebergOutput:
        """The table at the output's path."""
        _, path, url = self.opened()
        name = tuple(self.table.split(".")) if self.table else ("default", path.rpartition("/")[2])
        by = tuple(self.partition_by)
        return IcebergOutput(self.path, url, name, self.catalog, self.storage_options, by)

    def moved_to(self, path: str, storage_options: dict[str, Any]) -> Self:
        """The same sink in another place, with a catalog of its own there."""
        moved = super().moved_to(path, storage_options)
        return moved.model_copy(update={"catalog": {}, "table": None})

    def columns(self) -> pa.Schema | None:
        """The table's own; None where there is no table yet."""
        return self.as_table().schema()

    def partition_columns(self) -> list[str] | None:
        """What parts the table; None where there is no table yet."""
        return self.as_table().partition_columns()

    def check_names(self, columns: pa.Schema) -> None:
        """See that no column is called as one within another is.

        Raises:
            InvalidSpec: one is.
        """
        counts = Counter(name for each in columns for name in dotted(each))
        twice = sorted(name for name, count in counts.items() if count > 1)
        if twice:
            problem = (
                f"is a table that would have two columns called {twice[0]}, one of them within "
            )
            problem += "another: rename it in a step"
            raise InvalidSpec.at("sink.path", self.path, problem)

    def check(self) -> None:
        """See that catalog and path can be used.

        Raises:
            InvalidSpec: the package is missing, there is no catalog, or the table is another one.
        """
        require("sink.kind", self.kind, "pyiceberg", "iceberg")
        if "://" in self.path and not self.catalog:
            problem = (
                "is needed for a table that is not on this machine, such as {type: rest, uri: ...}"
            )
            raise InvalidSpec.at("sink.catalog", self.catalog, problem)
        if re.search("[#?]", self.path):
            problem = "has # or ? in it, which Iceberg's readers cut off: rename the folder"
            raise InvalidSpec.at("sink.path", self.path, problem)
        self.refuse_format()
        self.as_table().refuse_step_back()
        super().check()

    def refuse_format(self) -> None:
        """Refuse a table that pyiceberg reads and does not write.

        It says so when it commits only: the run is decided by then, and no later one could publish.

        Raises:
            InvalidSpec: names the version, and the ways out.
        """
        from pyiceberg.table.metadata import SUPPORTED_TABLE_FORMAT_VERSION as WRITTEN

        found = self.as_table().format_version()
        if found > WRITTEN:
            problem = (
                f"is a table of version {found} of Iceberg's format, but pyiceberg writes "
                f"versions up to {WRITTEN}: publish to a table of such a version at another path, "
                "and copy from it"
            )
            raise InvalidSpec.at("sink.path", self.path, problem)

    def schema_for(self, rows: pa.Schema) -> pa.Schema:
        """The run's output schema, of the first rows it writes.

        Raises:
            InvalidSpec: the table does not take such rows, or no files of ours any more.
            SchemaMismatch: no table has a type for a column.
        """
        self.refuse_format()
        return super().schema_for(rows)


def dotted(column: pa.Field, above: str = "") -> Iterator[str]:
    """Names of a column and of all within it, as Iceberg calls them."""
    name = above + column.name
    yield name
    if is_list(column.type):
        yield from dotted(column.type.value_field.with_name("element"), f"{name}.")
    elif pa.types.is_struct(column.type):
        for each in column.type.fields:
            yield from dotted(each, f"{name}.")
    elif pa.types.is_map(column.type):
        yield from dotted(column.type.key_field.with_name("key"), f"{name}.")
        yield from dotted(column.type.item_field.with_name("value"), f"{name}.")
