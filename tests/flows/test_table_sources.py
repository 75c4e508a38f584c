"""An output follows its table: what comes, changes, moves and goes, without Ray or Prefect."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import Field, write_deltalake
from deltalake.schema import PrimitiveType

from flows.printed_report import left_by
from tasks.errors import InvalidSpec, SchemaMismatch
from tasks.kinds.gates.rows import RowsGate
from tasks.plan import PlannedRun, make_plan
from tasks.publish import publish_planned
from tasks.run import left_to_do
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import parse_spec
from tests.flows.conftest import published, spec_of
from tests.flows.test_object_stores import predict
from tests.kinds.sources.tables import DeltaLake, IcebergLake, Lake, LanceLake
from tests.kinds.sources.test_tables import lake  # noqa: F401


@pytest.fixture
def spec(tmp_path: Path, lake: Lake) -> BatchInferenceSpec:  # noqa: F811
    """Doubles x."""
    source = lake.source(columns=["id", "x"]).model_dump(mode="json")
    return spec_of(tmp_path / "in", source=source)


def run(spec: BatchInferenceSpec) -> int:
    """Plan, predict, publish; return how many rows were predicted."""
    planned = make_plan(spec)
    if planned.nothing_to_do:
        return 0
    rows = predict(planned) if left_to_do(planned, tried=False) else 0
    publish_planned(planned)
    return rows


def ids(spec: BatchInferenceSpec) -> list[int]:
    """Of all published rows, doubled each."""
    rows = published(spec)
    assert [row["doubled"] for row in rows] == [2.0 * row["id"] for row in rows]
    return [row["id"] for row in rows]


def test_an_output_follows_its_table(spec: BatchInferenceSpec, lake: Lake) -> None:  # noqa: F811
    assert (run(spec), ids(spec)) == (10, list(range(10)))
    lake.append(10, 11)
    assert (run(spec), ids(spec)) == (2, list(range(12)))
    assert make_plan(spec).nothing_to_do
    lake.compact()
    again = make_plan(spec)
    assert again.nothing_to_do, again.plan.shards.to_pylist()
    lake.append(12)
    assert (run(spec), ids(spec)) == (1, list(range(13)))
    # Rows of files that were compacted, and of one that was not.
    lake.delete(0, 1, 12)
    run(spec)
    assert ids(spec) == list(range(2, 12))
    assert make_plan(spec).nothing_to_do


def test_rows_that_are_deleted_with_their_file_leave_the_output(
    spec: BatchInferenceSpec,
    lake: Lake,  # noqa: F811
) -> None:
    """Though the spec wants rows of each run: there is none to be judged."""
    spec = spec.model_copy(update={"gates": [RowsGate(minimum=1)]})
    run(spec)
    lake.append(10, 12)
    run(spec)
    lake.delete(10, 12)
    assert (run(spec), ids(spec)) == (0, list(range(10)))
    assert make_plan(spec).nothing_to_do


def test_rows_leave_the_output_though_their_table_has_a_new_column_meanwhile(
    tmp_path: Path,
) -> None:
    """The output has it not, and no row is to come that would bring it."""
    table = DeltaLake(str(tmp_path / "in"))
    table.append(1, 2)
    spec = spec_of(tmp_path / "in", source={"kind": "delta", "path": table.url})
    run(spec)
    table.table.alter.add_columns([Field("more", PrimitiveType("string"))])
    table.delete(2)
    assert (run(spec), ids(spec)) == (0, [1])
    write_deltalake(table.url, table.rows(), mode="append")
    with pytest.raises(SchemaMismatch, match=r"have columns \['more'\], which the published"):
        run(spec)


def test_a_compaction_together_with_new_rows_doubles_none(
    spec: BatchInferenceSpec,
    lake: Lake,  # noqa: F811
) -> None:
    run(spec)
    lake.append(10, 11)
    lake.compact()
    run(spec)
    assert ids(spec) == list(range(12))
    assert make_plan(spec).nothing_to_do


def test_a_compaction_that_the_history_does_not_tell_of_doubles_none(
    spec: BatchInferenceSpec,
    lake: Lake,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(spec)
    lake.compact()
    version = type(lake.source().open())
    monkeypatch.setattr(version, "rewrites", lambda self: iter(()))
    assert (run(spec), ids(spec)) == (10, list(range(10)))


def test_what_was_set_aside_of_a_compacted_file_is_left_by_a_redrive_and_said_to_be(
    spec: BatchInferenceSpec,
    lake: Lake,  # noqa: F811
) -> None:
    run_setting_one_aside(spec)
    assert len(published(spec)) == 9
    lake.append(10)
    lake.compact()
    again = make_plan(spec, RunOptions(redrive=True))
    assert (again.nothing_to_do, again.inputs_skipped) == (True, 1)
    assert again.summary == "0 to do, 1 changed or gone since"
    said = left_by({"inputs_skipped": 1})
    assert "the rows of 1 input changed or gone since are left: the next run predicts those" in said
    anew = make_plan(spec, RunOptions(replace_output=True))
    predict(anew)
    publish_planned(anew)
    assert ids(spec) == list(range(11))


def test_rows_set_aside_come_back_though_the_version_that_they_were_read_at_is_gone(
    spec: BatchInferenceSpec,
    lake: Lake,  # noqa: F811
) -> None:
    run_setting_one_aside(spec)
    lake.append(10)
    forget_versions(lake)
    again = make_plan(spec, RunOptions(redrive=True))
    assert (predict(again), again.inputs_skipped) == (1, 0)
    publish_planned(again)
    assert ids(spec) == list(range(10))


def run_setting_one_aside(spec: BatchInferenceSpec) -> None:
    """A run whose model takes all rows but one."""
    picky = {"kind": "python", "class": "predictors:Picky", "init": {"refuses": [3.0]}}
    raw = {**spec.model_dump(by_alias=True), "model": picky}
    run(parse_spec({**raw, "errors": {"max_rejected_fraction": 1}}))


def forget_versions(lake: Lake) -> None:  # noqa: F811
    """Leave nothing of a table but its newest version, as its own cleaning does in time."""
    if isinstance(lake, LanceLake):
        lake.forget()
    elif isinstance(lake, DeltaLake):
        lake.table.create_checkpoint()
        for each in sorted(Path(lake.url, "_delta_log").glob("*.json"))[:-1]:
            each.unlink()
    elif isinstance(lake, IcebergLake):
        newest = Path(lake.table.metadata_location.removeprefix("file://"))
        for each in {*newest.parent.glob("*.metadata.json")} - {newest}:
            each.unlink()


def test_a_run_that_is_resumed_reads_what_it_planned(
    spec: BatchInferenceSpec,
    lake: Lake,  # noqa: F811
) -> None:
    started = make_plan(spec)
    lake.delete(*range(10))
    lake.append(50)
    resumed: PlannedRun = make_plan(spec)
    assert resumed.plan.digest == started.plan.digest
    assert predict(resumed) == 10
    publish_planned(resumed)
    assert ids(spec) == list(range(10))
    assert (run(spec), ids(spec)) == (1, [50])


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_rows_of_another_source_do_not_leave_the_output(
    kind: str,
    spec: BatchInferenceSpec,
    lake: Lake,  # noqa: F811
    tmp_path: Path,
) -> None:
    """As of yesterday's table, where the path has the day in it."""
    first = tmp_path / "yesterday"
    rows = pa.table({"id": [100, 101], "x": [100.0, 101.0]})
    if kind == "delta":
        write_deltalake(str(first), rows)
    else:
        first.mkdir()
        pq.write_table(rows, first / "a.parquet")
    run(spec_of(tmp_path / "in", source={"kind": kind, "path": str(first)}))
    with pytest.raises(InvalidSpec, match=rf"source\.path: .*, {kind} at .*yesterday: an output"):
        run(spec)
    assert ids(spec) == [100, 101]
    anew = make_plan(spec, RunOptions(replace_output=True))
    predict(anew)
    publish_planned(anew)
    assert ids(spec) == list(range(10))
