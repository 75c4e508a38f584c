"""What others do to a table of ours."""

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.tables.bench import Row, TableBench

FOREIGN: list[Row] = [("elsewhere", "v0", 0)]
ROW = pa.table({"path": ["elsewhere"], "identity": ["v0"], "row": [0]})


def append_delta(bench: TableBench) -> None:
    write_deltalake(bench.sink.path, ROW, mode="append", schema_mode="merge")


def compact_delta(bench: TableBench) -> None:
    DeltaTable(bench.sink.path).optimize.compact()


def empty_delta(bench: TableBench) -> None:
    DeltaTable(bench.sink.path).delete()


APPEND = {"delta": append_delta}
COMPACT = {"delta": compact_delta}
EMPTY = {"delta": empty_delta}
