"""What others do to a table of ours."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


def empty_lance(bench: TableBench) -> None:
    lance(bench).delete("true")


APPEND = {"delta": append_delta, "iceberg": append_iceberg, "lance": append_lance}
COMPACT = {"delta": compact_delta, "iceberg": compact_iceberg, "lance": compact_lance}
EMPTY = {"delta": empty_delta, "iceberg": empty_iceberg, "lance": empty_lance}
