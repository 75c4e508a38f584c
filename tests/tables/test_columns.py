"""What others do to a table's columns is found before anything is decided."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tasks.errors import InvalidSpec, SchemaMismatch
from tasks.kinds.tables.iceberg_output import IcebergOutput
from tasks.kinds.tables.lance_columns import LANCES_OWN
from tasks.plan import make_plan
from tasks.protocol.ids import as_ids
from tasks.publish import publish_planned
from tests.flows.conftest import spec_of
from tests.flows.test_object_stores import predict
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
        InvalidSpec, match=r"is a table whose columns \['mark'\] must have values, but some rows"
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


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_value_that_a_table_cannot_hold_is_told_by_its_column(open_bench: OpenBench) -> None:
    bench, times = open_bench(), pa.array([1, None, 3], pa.timestamp("ns"))
    with pytest.raises(SchemaMismatch, match=r"a value: column 'at': .*lose data.*in a step"):
        bench.run("k1", {"a": "v1"}, extra={"at": times})


def test_a_run_that_began_before_a_column_came_takes_none_away(open_bench: OpenBench) -> None:
    bench = open_bench(evolve_schema=True)
    early = bench.prepare("k1", {"a": "v1"})
    bench.run("k2", {"b": "v1"}, extra={"label": "x"})
    bench.put(early)
    stored = bench.ledger.look().schema
    assert stored
    assert "label" in pa.ipc.read_schema(pa.py_buffer(stored)).names
    assert frame_of(bench)["label"].null_count() == 3


@pytest.mark.parametrize("kind", ["delta"])
def test_a_column_that_differs_by_case_from_the_tables_is_refused_before_it_is_decided(
    open_bench: OpenBench,
) -> None:
    """To Delta it is the same: the ledger would have it, and the table never."""
    bench = open_bench(evolve_schema=True)
    DeltaTable.create(bench.sink.path, pa.schema([("LABEL", pa.string())]))
    with pytest.raises(
        InvalidSpec, match="is a table with LABEL, so it cannot also have label: rename it"
    ):
        bench.run("k1", {"a": "v1"}, extra={"label": "cat"})
    assert not bench.ledger.look().version
    bench.run("k2", {"a": "v1"}, extra={"LABEL": "cat"})
    assert frame_of(bench)["LABEL"].to_list() == ["cat"] * 3


@pytest.mark.parametrize("kind", ["iceberg"])
def test_a_column_called_as_one_within_another_is_refused_before_it_is_decided(
    bench: TableBench,
) -> None:
    within = pa.array([{"b": 1}] * 3, pa.struct([("b", pa.int64())]))
    with pytest.raises(InvalidSpec, match=r"two columns called a\.b, one of them within another"):
        bench.run("k1", {"a": "v1"}, extra={"a": within, "a.b": 1})
    assert not bench.ledger.look().version
    bench.run("k2", {"a": "v1"}, extra={"a": within, "b": 1})


@pytest.mark.parametrize("kind", ["iceberg"])
def test_bytes_of_a_length_are_others_than_bytes(open_bench: OpenBench) -> None:
    from pyiceberg.schema import Schema as IcebergSchema
    from pyiceberg.types import FixedType, NestedField, UUIDType

    bench = open_bench(evolve_schema=True)
    assert isinstance(bench.table, IcebergOutput)
    fields = [NestedField(1, "uuid", UUIDType()), NestedField(2, "digest", FixedType(16))]
    with bench.table.opened() as catalog:
        catalog.create_namespace("default")
        catalog.create_table(bench.table.identifier, IcebergSchema(*fields), bench.table.location)
    for name, there in (("uuid", "extension<arrow.uuid>"), ("digest", r"fixed_size_binary\[16\]")):
        with pytest.raises(InvalidSpec, match=f"{name} is {there} there and binary here"):
            bench.run("k1", {"a": "v1"}, extra={name: bytes(16)})
    assert not bench.ledger.look().version
    bench.run("k2", {"a": "v1"})
    assert rows_in(bench) == rows_of({"a": "v1"})


@pytest.mark.parametrize("kind", ["delta"])
def test_a_table_of_narrow_numbers_takes_numbers_as_narrow(open_bench: OpenBench) -> None:
    bench = open_bench(evolve_schema=True)
    narrow = {"tiny": pa.int8(), "short": pa.int16()}
    DeltaTable.create(bench.sink.path, pa.schema([*narrow.items()]))
    numbers = {name: pa.array([1, -2, 3], kind) for name, kind in narrow.items()}
    bench.run("k1", {"a": "v1"}, extra=numbers)
    assert frame_of(bench).select(*narrow).sum().rows() == [(2, 2)]
    assert {n: pa.schema(DeltaTable(bench.sink.path).schema()).field(n).type for n in narrow} == (
        narrow
    )
    with pytest.raises(InvalidSpec, match="short is int16 there and int64 here"):
        bench.run("k2", {"b": "v1"}, extra={"short": 1})


@pytest.mark.parametrize("kind", ["lance"])
@pytest.mark.parametrize("name", sorted(LANCES_OWN))
def test_a_name_of_lances_own_is_refused_before_anything_is_decided(
    bench: TableBench, name: str, tmp_path: Path
) -> None:
    import lance

    with pytest.raises(OSError, match=f"{name} is a reserved name"):
        lance.write_dataset(pa.table({name: [1]}), tmp_path / "theirs")
    with pytest.raises(SchemaMismatch, match=rf"\['{name}'\]: .*in a rename step"):
        bench.run("k1", {"a": "v1"}, extra={name: 1})
    assert not bench.ledger.look().version
    bench.run("k1", {"a": "v1"}, extra={name.upper(): 1})
    assert frame_of(bench)[name.upper()].to_list() == [1] * 3


@pytest.mark.parametrize("kind", ["lance"])
@pytest.mark.parametrize("name", ["a.b", "a`b", "`a`", "", "a\0b"])
def test_a_name_by_which_lance_finds_no_column_is_refused(bench: TableBench, name: str) -> None:
    with pytest.raises(
        SchemaMismatch, match=r"columns cannot be read if .*: \['.*in a rename step"
    ):
        bench.run("k1", {"a": "v1"}, extra={name: 1})
    assert not bench.ledger.look().version


@pytest.mark.parametrize("kind", ["lance"])
@pytest.mark.parametrize("name", ["a b", "a/b", 'a"b', "a'b", "a\\b", "[a]", "é", "_distance"])
def test_other_names_are_found(bench: TableBench, name: str) -> None:
    bench.run("k1", {"a": "v1"}, extra={name: 1})
    bench.run("k2", {"a": "v2"}, extra={name: 2})
    assert frame_of(bench)[name].to_list() == [2] * 3


@pytest.mark.parametrize("kind", ["lance"])
@pytest.mark.parametrize("values", [[{"x": 1}, {"x": 2}], ["a", "b"], [b"a", b"b"]])
@pytest.mark.parametrize("is_within", [False, True])
def test_lists_of_a_fixed_size_that_lance_does_not_read_again_are_refused(
    bench: TableBench, values: list[Any], *, is_within: bool
) -> None:
    kind = pa.list_(pa.array(values).type, len(values))
    column = pa.array([values] * 3, kind)
    if is_within:
        column = pa.StructArray.from_arrays([column], ["inner"])
    with pytest.raises(
        SchemaMismatch, match=r"fixed-size lists of .*: {'pair': '.*any length in a"
    ):
        bench.run("k1", {"a": "v1"}, extra={"pair": column})
    assert not bench.ledger.look().version
