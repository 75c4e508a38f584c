"""Tables in parts: which part a file is of, and what becomes of it where others part them anew."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tasks.errors import InvalidSpec
from tasks.kinds.sinks.table_sink import ParquetTableSink
from tasks.kinds.tables.iceberg_output import IcebergOutput
from tasks.ledgers import ledger_of
from tasks.plan import make_plan
from tasks.publish import publish_planned
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import spec_of
from tests.flows.test_object_stores import predict
from tests.planning.test_output_as_found import publish

NO_BOUNDS = [
    {"write.metadata.metrics.default": "none"},
    {"write.metadata.metrics.default": "counts"},
    {"write.metadata.metrics.column.day": "none"},
]


def first_night(folder: Path, **sink: Any) -> BatchInferenceSpec:
    """A table that has a row, and an input that is new since."""
    spec = spec_of(folder / "in", sink={"path": str(folder / "out"), **sink})
    (folder / "in").mkdir()
    for number, day in enumerate("ab"):
        at = pa.array([number], pa.timestamp("us"))
        rows = pa.table({"id": [number], "x": [1.0], "day": [day], "at": at})
        pq.write_table(rows, folder / f"in/{number}.parquet")
        if number == 0:
            publish(spec)
    return spec


def iceberg(spec: BatchInferenceSpec) -> AbstractContextManager[Any]:
    """The table that a spec publishes to."""
    table = spec.sink.as_table()
    assert isinstance(table, IcebergOutput)
    return table.loaded()


def part_by(spec: BatchInferenceSpec, column: str, transform: str) -> None:
    """Others have a table parted by one more column from now on."""
    with iceberg(spec) as table, table.update_spec() as parts:
        parts.add_field(column, transform, f"{column}_part")


@pytest.mark.parametrize("properties", NO_BOUNDS, ids=str)
def test_a_file_is_of_its_part_where_no_bounds_are_wanted(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    """By itself pyiceberg takes it for one without a value, and readers pass it over."""
    spec = first_night(tmp_path, kind="iceberg", partition_by=["day"])
    with iceberg(spec) as there, there.transaction() as changes:
        changes.set_properties(properties)
    publish(spec)
    with iceberg(spec) as there:
        assert there.scan(row_filter="day == 'b'").to_arrow()["id"].to_pylist() == [1]
        assert there.properties.items() >= properties.items()


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_that_others_part_anew_is_refused_before_a_run_is_decided(
    tmp_path: Path, kind: str
) -> None:
    spec = first_night(tmp_path, kind=kind)
    planned = make_plan(spec)
    predict(planned)
    if kind == "delta":
        rows = DeltaTable(spec.sink.path).to_pyarrow_table()
        anew: dict[str, Any] = {"mode": "overwrite", "schema_mode": "overwrite"}
        write_deltalake(spec.sink.path, rows, partition_by=["day"], **anew)
    else:
        part_by(spec, "day", "identity")
    with pytest.raises(InvalidSpec, match=r"partition_by: \[\] is not how .*, \['day'\]: set it"):
        publish_planned(planned)
    assert ledger_of(spec).look().version == 1


def test_a_run_that_was_decided_goes_in_once_the_parts_are_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others part it between the last look and the commit."""
    spec = first_night(tmp_path, kind="iceberg")
    rows = pa.table({"id": [2, 3], "x": [1.0, 1.0], "day": ["c", "d"], "at": pa.nulls(2)})
    rows = rows.set_column(3, "at", rows["at"].cast(pa.timestamp("us")))
    pq.write_table(rows, tmp_path / "in/2.parquet")
    planned = make_plan(spec)
    predict(planned)
    part_by(spec, "id", "identity")
    monkeypatch.setattr(ParquetTableSink, "check", lambda self: None)
    with pytest.raises(
        InvalidSpec, match=r"others have changed how the table is partitioned; .* back to \[\]"
    ):
        publish_planned(planned)
    with iceberg(spec) as table, table.update_spec() as parts:
        parts.remove_field("id_part")
    assert publish_planned(planned) == 2
    with iceberg(spec) as table:
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]


def test_parts_that_files_here_cannot_have_are_not_to_be_asked_for(tmp_path: Path) -> None:
    spec = first_night(tmp_path, kind="iceberg")
    part_by(spec, "at", "day")
    with pytest.raises(
        InvalidSpec, match=r"\['day\(at\)'\]: use another path, or partition the table by"
    ):
        make_plan(spec)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("name", ["", "a\tday"])
def test_a_name_by_which_no_file_is_found_is_refused_in_the_plan(
    kind: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": [0], "x": [1.0], name: ["a"]}), tmp_path / "in/0.parquet")
    sink = {"kind": kind, "path": str(tmp_path / "out"), "partition_by": [name]}
    with pytest.raises(
        InvalidSpec, match=r"sink\.partition_by: .*cannot partition a table.*rename"
    ):
        make_plan(spec_of(tmp_path / "in", sink=sink))
