"""Rows of an Iceberg table."""

from datetime import UTC
from typing import Any, Literal, Self

import pyarrow as pa
from pydantic import ConfigDict, Field, model_validator

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import is_list
from tasks.kinds.extras import require
from tasks.kinds.sources.table import TableSource
from tasks.kinds.sources.table_reading.iceberg import IcebergSnapshot, as_then
from tasks.kinds.sources.table_reading.iceberg_filter import iceberg_filter
from tasks.kinds.tables.iceberg import (
    METADATA,
    NAME,
    CatalogProperties,
    open_catalog,
    open_metadata,
)


class IcebergSource(TableSource):
    """Rows of an Iceberg table; deletes by position are applied, deletes by value refused."""

    model_config = ConfigDict(title="Iceberg")
    kind: Literal["iceberg"] = "iceberg"
    path: str = Field(
        title="Table",
        min_length=1,
        description="The table's name in its catalog, as in sales.orders; or, without a catalog, "
        "one of its metadata files, as in s3://lake/orders/metadata/00003-….metadata.json.",
    )
    catalog: CatalogProperties = Field(
        default={},
        description="pyiceberg's properties of the catalog, as in type: rest, uri: https://…. "
        "Empty: pyiceberg's own configuration is used. ${NAME} stands for an environment variable; "
        "secrets are accepted in no other way.",
    )
    snapshot: int | str | None = Field(
        default=None,
        description="Read this snapshot, by its number or by the name of a branch or tag. Empty: "
        "the newest.",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.snapshot is not None and self.as_of is not None:
            raise ValueError("set either snapshot or as_of")
        return self

    def check(self) -> None:
        """See that pyiceberg is installed, and that path and filter can be given to it.

        Raises:
            InvalidSpec: they cannot.
        """
        require("source.kind", self.kind, "pyiceberg", "iceberg")
        if not (self.path.endswith(METADATA) or NAME.fullmatch(self.path)):
            problem = "is not a table's name: add its namespace, such as sales.orders, or give the "
            way_out = f"path of a metadata file, which ends with {METADATA}"
            raise InvalidSpec.at("source.path", self.path, problem + way_out)
        super().check()

    @property
    def url(self) -> str:
        """The table's place, or its name in its catalog."""
        if self.path.endswith(METADATA):
            return super().url
        return f"iceberg://{self.catalog.get('name', 'default')}/{self.path}"

    @property
    def condition(self) -> Any:
        """The filter as pyiceberg takes it, read without a look at the table.

        Raises:
            InvalidSpec: it cannot be read.
        """
        return self.as_pyiceberg_takes_it(None)

    def as_pyiceberg_takes_it(self, schema: pa.Schema | None) -> Any:
        """The filter over columns of these types.

        Raises:
            InvalidSpec: it cannot be read.
        """
        if super().condition is None:
            return None
        try:
            return iceberg_filter(self.filter or "", schema)
        except ValueError as error:
            raise InvalidSpec.at("source.filter", self.filter, str(error)) from error

    def check_columns(self, schema: pa.Schema) -> None:
        """See TableSource; pyiceberg reads by no column of lists, and says so in the job only."""
        super().check_columns(schema)
        names = sorted(self.columns_of_filter)
        if bad := [name for name in names if is_of_several(schema.field(name).type)]:
            problem = f"uses {bad}, which contain lists or maps: choose rows with a filter step"
            raise InvalidSpec.at("source.filter", self.filter, problem)

    def pinned_fields(self, pins: dict[str, Any]) -> dict[str, Any]:
        """The metadata file, so that no catalog is asked, and the snapshot unless it is the newest.

        The newest has the columns that the table has by now, any other those that it had then.
        """
        snapshot = None if self.is_newest else pins["version"]
        return {"path": pins["metadata"], "snapshot": snapshot}

    @property
    def is_newest(self) -> bool:
        """Whether no other snapshot is asked for than the newest."""
        return self.snapshot is None and self.as_of is None

    def open(self) -> IcebergSnapshot:
        """The snapshot that is asked for; see TableSource."""
        table = self.load()
        found = self.snapshot_of(table)
        then = table if found is None or self.is_newest else as_then(table, found)
        condition = self.as_pyiceberg_takes_it(then.schema().as_arrow())
        return IcebergSnapshot(then, found, condition)

    def load(self) -> Any:
        """The table, from its catalog or its metadata file.

        Raises:
            FileNotFoundError: there is none.
            InvalidSpec: the metadata file that a plan has pinned was cleaned up.
        """
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        if self.path.endswith(METADATA):
            try:
                return open_metadata(self.path, self.storage_options)
            except FileNotFoundError as error:
                if self.catalog:  # which named it for a plan: that is not a table that is not there
                    raise self.gone("path", error) from error
                raise
        catalog = open_catalog("source.catalog", self.catalog, self.storage_options)
        try:
            return catalog.load_table(self.path)
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            raise FileNotFoundError(self.path) from error

    def snapshot_of(self, table: Any) -> int | None:
        """The number of the snapshot; None where the table has none yet.

        Raises:
            InvalidSpec: there is no such snapshot.
        """
        if self.as_of is not None:
            then = self.as_of.replace(tzinfo=self.as_of.tzinfo or UTC)
            found = table.snapshot_as_of_timestamp(int(then.timestamp() * 1000))
            field = "as_of"
        elif self.snapshot is None:
            found = table.current_snapshot()
            return found.snapshot_id if found else None
        else:
            by_name = isinstance(self.snapshot, str)
            look_up = table.snapshot_by_name if by_name else table.snapshot_by_id
            found, field = look_up(self.snapshot), "snapshot"
        if found is None:
            raise self.gone(field, LookupError("it is not in the table's metadata"))
        return int(found.snapshot_id)


def is_of_several(kind: pa.DataType) -> bool:
    """Whether a value is a list or a map."""
    return is_list(kind) or bool(pa.types.is_map(kind))
