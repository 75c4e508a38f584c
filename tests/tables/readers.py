"""Tables as others read them, none of whom has made them."""

import os
from typing import Any

import duckdb
import polars as pl

from tasks.kinds.tables.lance_output import LanceOutput
from tests.tables.bench import Row, TableBench


def read_delta(bench: TableBench, version: Any) -> pl.DataFrame:
    sink = bench.sink
    endpoint = sink.storage_options.get("endpoint_url")
    options = {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"} if endpoint else None
    return pl.read_delta(sink.path, version=version, storage_options=options)


def read_iceberg(bench: TableBench, version: Any) -> pl.DataFrame:
    """By the table's metadata file, without the catalog."""
    os.environ.setdefault("POLARS_ICEBERG_PLANNER", "pyiceberg")  # else it warns
    endpoint = bench.sink.storage_options.get("endpoint_url")
    region = {"s3.endpoint": endpoint, "s3.region": "us-east-1"} if endpoint else None
    path = str(version or bench.table.look("").version)
    return pl.scan_iceberg(path, storage_options=region).collect()


def read_lance(bench: TableBench, version: Any) -> pl.DataFrame:
    """By DuckDB, as a stream of Arrow batches."""
    table = bench.sink.as_table()
    assert isinstance(table, LanceOutput)
    with duckdb.connect() as connection:
        return connection.register("rows", table.open(version)).sql("select * from rows").pl()


READERS = {"delta": read_delta, "iceberg": read_iceberg, "lance": read_lance}


def frame_of(bench: TableBench, version: Any = None) -> pl.DataFrame:
    """All columns."""
    return READERS[bench.kind](bench, version)


def rows_in(bench: TableBench, version: Any = None) -> list[Row]:
    """The rows that are in the table, sorted."""
    frame = frame_of(bench, version).select("path", "identity", "row")
    return sorted((path, identity, row) for path, identity, row in frame.iter_rows())
