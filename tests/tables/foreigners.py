"""What others do to a table of ours."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tasks.errors import StaleTable, Unreachable
from tasks.kinds.tables.iceberg_output import IcebergOutput
from tasks.kinds.tables.lance_output import LanceOutput
from tests.tables.bench import Row, TableBench

FOREIGN: list[Row] = [("elsewhere", "v0", 0)]
ROW = pa.table({"path": ["elsewhere"], "identity": ["v0"], "row": [0]})


def append_delta(bench: TableBench) -> None:
    write_deltalake(bench.sink.path, ROW, mode="append", schema_mode="merge")


def compact_delta(bench: TableBench) -> None:
    DeltaTable(bench.sink.path).optimize.compact()


def clean_delta(bench: TableBench) -> None:
    """Its log, to a checkpoint, and files that it names no more."""
    table = DeltaTable(bench.sink.path)
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    table.create_checkpoint()
    table.cleanup_metadata()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def rewrite_delta(bench: TableBench) -> None:
    rows = DeltaTable(bench.sink.path).to_pyarrow_table()
    write_deltalake(bench.sink.path, rows, mode="overwrite", schema_mode="overwrite")


def empty_delta(bench: TableBench) -> None:
    DeltaTable(bench.sink.path).delete()


@contextmanager
def iceberg(bench: TableBench) -> Iterator[Any]:
    table = bench.sink.as_table()
    assert isinstance(table, IcebergOutput)
    with table.loaded() as found:
        yield found


def append_iceberg(bench: TableBench) -> None:
    """Like the other two libraries, it goes on until it has won a race."""
    for _ in range(30):
        with suppress(StaleTable, Unreachable), iceberg(bench) as table:
            table.append(ROW)
            return


def compact_iceberg(bench: TableBench) -> None:
    with iceberg(bench) as table:
        table.overwrite(table.scan().to_arrow())


def clean_iceberg(bench: TableBench) -> None:
    with iceberg(bench) as table:
        tomorrow = datetime.now() + timedelta(days=1)
        table.maintenance.expire_snapshots().older_than(tomorrow).commit()


def rewrite_iceberg(bench: TableBench) -> None:
    """As `CREATE OR REPLACE TABLE` of its own rows does, which keeps no property."""
    with iceberg(bench) as table:
        rows, properties = table.scan().to_arrow(), [*table.properties]
        with table.transaction() as transaction:
            transaction.remove_properties(*properties)
            transaction.overwrite(rows)


def empty_iceberg(bench: TableBench) -> None:
    with iceberg(bench) as table:
        table.delete()


def lance(bench: TableBench) -> Any:
    table = bench.sink.as_table()
    assert isinstance(table, LanceOutput)
    return table.open()


def append_lance(bench: TableBench) -> None:
    lance(bench).insert(ROW)


def compact_lance(bench: TableBench) -> None:
    lance(bench).optimize.compact_files()


def clean_lance(bench: TableBench) -> None:
    lance(bench).cleanup_old_versions(older_than=timedelta(0))


def rewrite_lance(bench: TableBench) -> None:
    """As whoever reads it as a data frame and writes that does."""
    rows = lance(bench).to_table().replace_schema_metadata(None)
    lance(bench).insert(rows, mode="overwrite")


def empty_lance(bench: TableBench) -> None:
    lance(bench).delete("true")


APPEND = {"delta": append_delta, "iceberg": append_iceberg, "lance": append_lance}
COMPACT = {"delta": compact_delta, "iceberg": compact_iceberg, "lance": compact_lance}
CLEAN = {"delta": clean_delta, "iceberg": clean_iceberg, "lance": clean_lance}
REWRITE = {"delta": rewrite_delta, "iceberg": rewrite_iceberg, "lance": rewrite_lance}
EMPTY = {"delta": empty_delta, "iceberg": empty_iceberg, "lance": empty_lance}
