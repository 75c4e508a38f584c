"""What others do to a table's columns is found before anything is decided."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tasks.errors import InvalidSpec, SchemaMismatch
from tasks.kinds.tables.iceberg_output import IcebergOutput
from tasks.plan import make_plan
from tasks.protocol.ids import as_ids
from tasks.publish import publish_planned
from tests.flows.conftest import spec_of
from tests.flows.test_s3 import predict
from tests.tables.bench import TableBench, rows_of
from tests.tables.conftest import OpenBench
from tests.tables.foreigners import iceberg
from tests.tables.readers import frame_of, rows_in

NEEDED = [
    pa.field("path", pa.string(), nullable=False),
    pa.field("mark", pa.int64(), nullable=False),
]
LABELS = pa.list_(pa.field("element", pa.string(), nullable=False))
STRICT = pa.schema([*NEEDED, ("identity", pa.string()), ("row", pa.int64()), ("labels", LABELS)])
"""A table of others, who let neither these columns nor a label be missing."""


def drop_delta(bench: TableBench) -> None:
    """All of it is written anew, without a column of ours."""
    rows = pa.table({"id": pa.array([0], pa.int64()), "x": [0.0]})
    write_deltalake(bench.sink.path, rows, mode="overwrite", schema_mode="overwrite")


def drop_iceberg(bench: TableBench) -> None:
    with iceberg(bench) as table, table.update_schema() as update:
        update.delete_column("doubled")


DROP = {"delta": drop_delta, "iceberg": drop_iceberg}


@pytest.mark.parametrize("kind", [*DROP])
def test_a_column_that_others_drop_does_not_come_back(
    open_bench: OpenBench, kind: str, tmp_path: Path
) -> None:
    bench, folder = open_bench(), tmp_path / "in"
    spec = spec_of(folder, sink={"kind": kind, "path": bench.sink.path})
    folder.mkdir()
    for number in range(2):
        pq.write_table(pa.table({"id": [number], "x": [1.0]}), folder / f"{number}.parquet")
        planned = make_plan(spec)
        predict(planned)
        if number:
            DROP[kind](bench)
            with pytest.raises(InvalidSpec, match=r"without the columns \['doubled'\]"):
                publish_planned(planned)
            assert planned.ledger.look().version == 1
        else:
            publish_planned(planned)
    with pytest.raises(InvalidSpec, match=r"without the columns \['doubled'\]"):
        make_plan(spec)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_tensors_are_lists_in_tables_that_have_none(bench: TableBench) -> None:
    kind = pa.fixed_shape_tensor(pa.float32(), [2, 2])
    numbers = pa.array([[1, 2, 3, 4]] * 3, pa.list_(pa.float32(), 4))
    bench.run("k1", {"a": "v1"}, extra={"t": pa.ExtensionArray.from_storage(kind, numbers)})
    assert frame_of(bench)["t"].to_list() == [[1, 2, 3, 4]] * 3
    (file,) = bench.ledger.look().files.values()
    own = bench.storage.read(file.target(bench.output))
    kept = bench.sink.select(own, ["t"], pa.schema([("t", kind)]))
    assert kept["t"].type == kind


def make_delta(bench: TableBench) -> None:
    DeltaTable.create(bench.sink.path, STRICT)


def make_iceberg(bench: TableBench) -> None:
    """Rows are identified by one of the columns that must have values."""
    assert isinstance(bench.table, IcebergOutput)
    with bench.table.opened() as catalog:
        catalog.create_namespace("default")
        table = catalog.create_table(bench.table.identifier, STRICT, bench.table.location)
        with table.update_schema() as update:
            update.set_identifier_fields("path")


def make_lance(bench: TableBench) -> None:
    import lance

    lance.write_dataset(STRICT.empty_table(), bench.sink.path, data_storage_version="2.2")


MAKE = {"delta": make_delta, "iceberg": make_iceberg, "lance": make_lance}


def columns(*marks: int | None, labels: list[str | None] | None = None) -> dict[str, Any]:
    found = pa.array([labels or ["x"]] * len(marks), pa.list_(pa.string()))
    return {"extra": {"mark": pa.array(marks, pa.int64()), "labels": found}}


@pytest.mark.parametrize("kind", [*MAKE])
def test_columns_that_must_have_values_get_them(bench: TableBench, kind: str) -> None:
    MAKE[kind](bench)
    with pytest.raises(
        InvalidSpec, match=r"is a table in which \['mark'\] must have values, and in some rows"
    ):
        bench.sink.parts(pa.table({"path": ["a", "b"], "mark": [1, None]}), as_ids([0, 1]))
    assert not bench.ledger.look().version


@pytest.mark.parametrize("kind", ["iceberg"])
def test_columns_that_must_have_values_and_identify_rows_go_on_doing_so(
    open_bench: OpenBench,
) -> None:
    bench = open_bench(evolve_schema=True)
    make_iceberg(bench)
    with iceberg(bench) as table:
        before = table.schema()
    bench.run("k1", {"a": "v1", "b": "v1"}, **columns(1, 2, 3, 4, 5, 6))
    bench.run("k2", {"b": "v2"}, **columns(7, 8, 9))  # what is left of the first file is rewritten
    assert rows_in(bench) == rows_of({"a": "v1", "b": "v2"})
    assert sorted(frame_of(bench)["mark"]) == [1, 2, 3, 7, 8, 9]
    with iceberg(bench) as table:
        assert table.schema().fields[: len(before.fields)] == before.fields
        assert table.schema().identifier_field_names() == {"path"}
        assert {each.name for each in table.schema().fields[len(before.fields) :]} == {
            "embedding",
            "score",
            "top",
        }


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_lists_whose_items_must_be_there_get_no_list_without_one(
    open_bench: OpenBench, kind: str
) -> None:
    bench = open_bench(evolve_schema=True)
    MAKE[kind](bench)
    bench.run("k1", {"a": "v1"}, **columns(1, 2, 3))
    with pytest.raises(SchemaMismatch, match=r"cannot hold a value.* non-nullable"):
        bench.run("k2", {"b": "v1"}, **columns(4, 5, 6, labels=["x", None]))
    assert rows_in(bench) == rows_of({"a": "v1"})
