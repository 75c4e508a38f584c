"""Iceberg tables in a catalog elsewhere, as the spec configures it."""

import json
import uuid
from pathlib import Path
from shutil import rmtree

import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.places import check_sink
from tasks.kinds.sinks import IcebergSink
from tasks.kinds.tables.iceberg_output import IcebergOutput
from tests.s3_server import S3
from tests.tables.bench import TableBench, rows_of
from tests.tables.readers import rows_in
from tests.tables.rest_catalog import rest_catalog


def test_a_rest_catalog(tmp_path: Path) -> None:
    with rest_catalog(tmp_path) as (uri, catalog):
        where = {"catalog": {"type": "rest", "uri": uri}, "table": "analytics.pets"}
        bench = TableBench(IcebergSink(path=str(tmp_path / "out"), partition_by=["path"], **where))
        check_sink(bench.sink)
        bench.run("k1", {"a": "v1", "b": "v1"})
        catalog.loses, before = 1, catalog.commits
        bench.run("k2", {"a": "v2"})
        assert rows_in(bench) == rows_of({"a": "v2", "b": "v1"})
        assert catalog.commits == before + 1  # the one whose reply got lost
        check_sink(bench.sink)
        elsewhere = IcebergSink(path=str(tmp_path / "trial"), **where)
        with pytest.raises(InvalidSpec, match=r"sink.table: 'analytics.pets' is at .*/out, not"):
            check_sink(elsewhere)


def test_what_is_wrong_is_said_before_anything_starts(tmp_path: Path) -> None:
    down = {"catalog": {"type": "rest", "uri": "http://127.0.0.1:1"}, "table": "a.b"}
    with pytest.raises(Unreachable, match=r"sink: .* cannot be reached"):
        check_sink(IcebergSink(path=str(tmp_path), **down))
    with pytest.raises(InvalidSpec, match=r"sink.catalog: {} is needed"):
        IcebergSink(path="s3://bucket/out").check()
    with pytest.raises(InvalidSpec, match=r"has # or \? in it"):
        IcebergSink(path="/data/out#1").check()
    unset = {"type": "rest", "uri": "https://catalog", "token": "${NO_SUCH_TOKEN}"}
    with pytest.raises(InvalidSpec, match="which is not set in the environment"):
        check_sink(IcebergSink(path=str(tmp_path), catalog=unset, table="a.b"))
    undriven = {"type": "sql", "uri": "mysql+pymysql://127.0.0.1:1/catalog"}
    with pytest.raises(InvalidSpec, match=r"is not a catalog: .* not installed"):
        check_sink(IcebergSink(path=str(tmp_path), catalog=undriven, table="a.b"))


def test_a_catalog_that_outlived_its_table_is_said_to_have(tmp_path: Path) -> None:
    bench = TableBench(IcebergSink(path=str(tmp_path / "out")))
    bench.run("k", {"a": "v1"})
    rmtree(tmp_path / "out")
    with pytest.raises(InvalidSpec, match=r"out\.catalog\.db, but .* remove it there too"):
        check_sink(bench.sink)


def test_a_table_of_a_format_that_is_not_written_is_refused_in_time(tmp_path: Path) -> None:
    """As Spark makes them by now; others may also bring a table of ours to it."""
    bench = TableBench(IcebergSink(path=str(tmp_path / "out")))
    bench.run("k1", {"a": "v1"})
    table = bench.sink.as_table()
    assert isinstance(table, IcebergOutput)
    with table.opened() as catalog:
        there = catalog.load_table(table.identifier)
        newer = json.loads(Path(there.metadata_location).read_text())
        path = tmp_path / "out" / "metadata" / f"00009-{uuid.uuid4()}.metadata.json"
        path.write_text(json.dumps(newer | {"format-version": 3, "next-row-id": 3}))
        catalog.drop_table(table.identifier)
        catalog.register_table(table.identifier, str(path))
    problem = r"sink\.path: .* version 3 of Iceberg's format, but pyiceberg writes versions up to 2"
    with pytest.raises(InvalidSpec, match=problem):
        check_sink(bench.sink)
    with pytest.raises(InvalidSpec, match=problem):
        bench.run("k2", {"b": "v1"})


def test_a_glue_catalog(s3: S3) -> None:
    """Moto answers for Glue too, at the same address."""
    glue = {"type": "glue", "glue.endpoint": s3.endpoint_url, "glue.region": "us-east-1"}
    url = s3.url(f"{uuid.uuid4().hex}/out")
    sink = IcebergSink(
        path=url, catalog=glue, table="analytics.pets", storage_options=s3.storage_options
    )
    bench = TableBench(sink)
    check_sink(bench.sink)
    bench.run("k1", {"a": "v1", "b": "v1"})
    bench.run("k2", {"a": "v2"})
    assert rows_in(bench) == rows_of({"a": "v2", "b": "v1"})


@pytest.mark.s3
def test_a_table_that_hadoop_has_placed(s3: S3, tmp_path: Path) -> None:
    """Its readers may know no other scheme than s3a."""
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    url = s3.url(f"{uuid.uuid4().hex}/out")
    sink = IcebergSink(
        path=url, catalog=catalog, storage_options=s3.storage_options, evolve_schema=True
    )
    bench = TableBench(sink)
    assert isinstance(bench.table, IcebergOutput)
    with bench.table.opened() as opened:
        opened.create_namespace("default")
        columns = pa.schema([("path", pa.string())])
        location = url.replace("s3://", "s3a://")
        opened.create_table(bench.table.identifier, columns, location)
    bench.run("k1", {"a": "v1", "b": "v1"})
    bench.run("k2", {"a": "v2"})
    assert rows_in(bench) == rows_of({"a": "v2", "b": "v1"})
    with bench.table.loaded() as table:
        files = [task.file.file_path for task in table.scan().plan_files()]
    assert {file.partition("/out/")[0] for file in files} == {location.removesuffix("/out")}
