"""Tables as their own libraries write them, for tests of what reads them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import pyarrow as pa

from tasks.kinds.sources import DeltaSource, IcebergSource, LanceSource
from tasks.kinds.sources.table import TableSource
from tasks.kinds.tables.iceberg import open_catalog
from tasks.kinds.tables.lance import lance_options
from tasks.protocol.delta_options import delta_options, quoted

WIDTH = 2


def rows_of(ids: Iterable[int]) -> pa.Table:
    """As x the id, as day odd or even, as vector the id again and again."""
    numbers = list(ids)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "x": pa.array(map(float, numbers), pa.float64()),
            "day": pa.array([("even", "odd")[each % 2] for each in numbers], pa.string()),
            "vector": pa.array([[each] * WIDTH for each in numbers], pa.list_(pa.float32(), WIDTH)),
        }
    )


class Lake(Protocol):
    """A table that somebody else writes."""

    def append(self, *ids: int) -> None:
        """Add rows, in files of their own."""

    def delete(self, *ids: int) -> None:
        """Delete rows."""

    def compact(self) -> None:
        """Put all rows into as few files as there can be."""

    def forget(self) -> None:
        """Remove what only older versions need."""

    def rows(self) -> pa.Table:
        """The rows as the library reads them."""

    def source(self, **fields: Any) -> TableSource:
        """What is to read them."""


@dataclass
class DeltaLake:
    """A Delta table, partitioned by day."""

    url: str
    options: dict[str, Any] = field(default_factory=dict)

    def append(self, *ids: int) -> None:
        from deltalake import write_deltalake

        options = delta_options(self.url, self.options)
        rows = rows_of(ids)
        write_deltalake(
            quoted(self.url), rows, mode="append", partition_by=["day"], storage_options=options
        )

    @property
    def table(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(quoted(self.url), storage_options=delta_options(self.url, self.options))

    def delete(self, *ids: int) -> None:
        self.table.delete(f"id IN ({', '.join(map(str, ids))})")

    def compact(self) -> None:
        self.table.optimize.compact()

    def forget(self) -> None:
        self.table.vacuum(0, dry_run=False, enforce_retention_duration=False)

    def rows(self) -> pa.Table:
        return pa.table(self.table.scan())

    def source(self, **fields: Any) -> DeltaSource:
        return DeltaSource(path=self.url, storage_options=self.options, **fields)


@dataclass
class LanceLake:
    """A Lance dataset."""

    url: str
    options: dict[str, Any] = field(default_factory=dict)

    def append(self, *ids: int) -> None:
        import lance

        options = lance_options(self.url, self.options)
        lance.write_dataset(rows_of(ids), quoted(self.url), mode="append", storage_options=options)

    @property
    def table(self) -> Any:
        import lance

        return lance.dataset(
            quoted(self.url), storage_options=lance_options(self.url, self.options)
        )

    def delete(self, *ids: int) -> None:
        self.table.delete(f"id IN ({', '.join(map(str, ids))})")

    def compact(self) -> None:
        self.table.optimize.compact_files()

    def forget(self) -> None:
        self.table.cleanup_old_versions(timedelta(0))

    def rows(self) -> pa.Table:
        return self.table.to_table()

    def source(self, **fields: Any) -> LanceSource:
        return LanceSource(path=self.url, storage_options=self.options, **fields)


@dataclass
class IcebergLake:
    """An Iceberg table, partitioned by day."""

    url: str
    """Of its warehouse."""
    catalog_file: str
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = open_catalog("catalog", self.catalog, self.options)
        assert isinstance(catalog, SqlCatalog)
        catalog.create_namespace("lake")
        self.table = catalog.create_table("lake.numbers", schema=rows_of([]).schema)
        with self.table.update_spec() as spec:
            spec.add_identity("day")

    @property
    def catalog(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self.catalog_file}", "warehouse": self.url}

    def append(self, *ids: int) -> None:
        self.table.append(rows_of(ids))

    def delete(self, *ids: int) -> None:
        self.table.delete(f"id IN ({', '.join(map(str, ids))})")

    def compact(self) -> None:
        """As Spark does it: pyiceberg has no such call, but has what it takes."""
        from pyiceberg.io.pyarrow import _dataframe_to_data_files
        from pyiceberg.table.snapshots import Operation, Summary

        rows, old = self.rows(), [task.file for task in self.table.scan().plan_files()]
        with self.table.transaction() as change, change.update_snapshot().overwrite() as update:
            summary = update._summary

            def of_a_replacement(properties: dict[str, str]) -> Any:
                return Summary(Operation.REPLACE, **summary(properties).additional_properties)

            update._summary = of_a_replacement
            for file in old:
                update.delete_data_file(file)
            for file in _dataframe_to_data_files(change.table_metadata, rows, self.table.io):
                update.append_data_file(file)

    def forget(self) -> None:
        """Remove the files that are in older snapshots only; nobody of this library does that."""
        kept = {task.file.file_path for task in self.table.scan().plan_files()}
        for each in {*self.table.inspect.all_files()["file_path"].to_pylist()}:
            if each not in kept:
                self.table.io.delete(each)

    def rows(self) -> pa.Table:
        return self.table.scan().to_arrow()

    def source(self, **fields: Any) -> IcebergSource:
        given = {"catalog": self.catalog, "storage_options": self.options, **fields}
        return IcebergSource(path="lake.numbers", **given)
