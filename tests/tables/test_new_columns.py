"""Columns that inputs bring after a table was made: added where the sink says so."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tasks.errors import GateFailed, SchemaMismatch
from tasks.kinds.gates.nulls import NullsGate
from tasks.kinds.models.python import PythonModel
from tasks.kinds.models.xgboost import XGBoostModel
from tasks.kinds.sinks import ParquetSink
from tasks.plan import PlannedRun, make_plan
from tasks.previewing import staged_rows, trial_of
from tasks.publish import publish_planned
from tasks.published import published_rows, rows_set_aside
from tasks.reporting.full_run import full_run
from tasks.run import left_to_do, next_attempt
from tasks.run_options import RunOptions
from tasks.searching.published import published_vectors
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import spec_of
from tests.flows.test_object_stores import predict
from tests.tables.bench import TableBench
from tests.tables.conftest import SINKS
from tests.tables.readers import frame_of


def job(tmp_path: Path, kind: str, **sink: Any) -> BatchInferenceSpec:
    (tmp_path / "in").mkdir(exist_ok=True)
    there = {"kind": kind, "path": str(tmp_path / "out"), "evolve_schema": True}
    stages = {"read": {"rows_per_batch": 1, "max_workers": 1}, "write": {"max_workers": 1}}
    return spec_of(tmp_path / "in", sink=there | sink, stages=stages)


def put(spec: BatchInferenceSpec, name: str, **columns: list[Any]) -> None:
    """An input; each has an id and an x."""
    size = len(columns["id"])
    (folder,) = spec.source.paths
    pq.write_table(pa.table({"x": [1.0] * size, **columns}), Path(folder) / f"{name}.parquet")


def run(spec: BatchInferenceSpec, **options: Any) -> int:
    """Plan, predict and publish; return how many rows were predicted."""
    planned = make_plan(spec, RunOptions(**options))
    rows = predict(planned)
    publish_planned(planned)
    return rows


def refusal(planned: PlannedRun) -> str:
    """What an attempt ends with."""
    attempt = next_attempt(planned, left_to_do(planned, tried=False))
    attempt.ensure_started()
    while (result := attempt.look().result) is None:
        time.sleep(0.02)
    return str(result["error"])


def rows_of(spec: BatchInferenceSpec, *names: str) -> list[tuple[Any, ...]]:
    """Some columns, as others read them; ours are the same."""
    bench = TableBench(SINKS[spec.sink.model_dump()["kind"]](path=spec.sink.path))
    found = sorted(frame_of(bench).select(*names).rows())
    ours = published_rows(spec).select(names).to_pylist()
    assert sorted(tuple(row.values()) for row in ours) == found
    return found


def test_a_later_night_adds_a_column_and_another_lacks_it(tmp_path: Path, kind: str) -> None:
    spec = job(tmp_path, kind)
    put(spec, "1", id=[1, 2])
    run(spec)
    put(spec, "2", id=[3], label=["cat"], vector=pa.array([[1.0, 0.0]], pa.list_(pa.float32(), 2)))
    run(spec)
    put(spec, "3", id=[4])
    assert run(spec) == 1
    put(spec, "4", id=[5], label=pa.nulls(1), more=pa.nulls(1))
    run(spec)
    expected = [(1, None), (2, None), (3, "cat"), (4, None), (5, None)]
    assert rows_of(spec, "id", "label") == expected
    found = published_vectors(spec, "vector").nearest(np.array([1.0, 0.0], np.float32), 3)
    assert ([row["id"] for row in found.rows], found.num_without) == ([3], 4)
    schema = published_rows(spec).schema
    assert schema.names == ["x", "id", "doubled", "label", "vector"]
    assert schema.field("vector").type.value_type == pa.float32()


@pytest.mark.parametrize("kind", ["delta"])
def test_a_run_of_several_nights_has_the_columns_of_all(tmp_path: Path, kind: str) -> None:
    """Also of one in the middle; by themselves they had been published with it."""
    spec = job(tmp_path, kind)
    for night in range(10, 23):
        put(spec, str(night), id=[night], **({"label": ["cat"]} if night == 21 else {}))
    expected = [(night, "cat" if night == 21 else None) for night in range(10, 23)]
    run(spec)
    assert rows_of(spec, "id", "label") == expected
    put(spec, "09", id=[9])
    put(spec, "23", id=[23], label=["dog"], more=[1])
    run(spec)
    run(spec, replace_output=True)
    assert rows_of(spec, "id", "label") == [(9, None), *expected, (23, "dog")]
    assert published_rows(spec).filter(pc.field("id") == 23)["more"].to_pylist() == [1]
    # Who names columns has said what is wanted.
    named = spec.source.model_copy(update={"columns": ["x", "id"]})
    run(spec.model_copy(update={"source": named}), replace_output=True)
    assert published_rows(spec).column_names == ["x", "id", "doubled"]


@pytest.mark.parametrize("kind", ["delta"])
@pytest.mark.parametrize("files", ["csv", "jsonl"])
def test_so_does_one_of_files_of_text(tmp_path: Path, kind: str, files: str) -> None:
    source = {"kind": files, "path": str(tmp_path / "in")}
    spec = BatchInferenceSpec.model_validate({**job(tmp_path, kind).as_json(), "source": source})

    def put(night: int, **columns: Any) -> None:
        row = {"x": 1.5, "id": night, **columns}
        csv = ",".join(row) + "\n" + ",".join(map(str, row.values()))
        (tmp_path / f"in/{night}.{files}").write_text(json.dumps(row) if files == "jsonl" else csv)

    put(10)
    run(spec)
    put(11, label="cat")
    put(12)
    put(13, more=7)
    assert run(spec) == 3
    put(14, label="dog")
    run(spec)
    expected = [(10, None), (11, "cat"), (12, None), (13, None), (14, "dog")]
    assert rows_of(spec, "id", "label") == expected
    assert run(spec, replace_output=True) == 5
    assert rows_of(spec, "id", "label") == expected
    assert sorted(published_rows(spec)["more"].drop_null().to_pylist()) == [7]


@pytest.mark.parametrize("kind", ["delta"])
def test_a_file_of_text_without_what_is_needed_is_set_aside_alone(
    tmp_path: Path, kind: str
) -> None:
    """Without a key nothing could be published, and nothing should be predicted on no feature."""
    import xgboost

    one = xgboost.DMatrix(np.eye(1), [1], feature_names=["x"])
    xgboost.train({}, one, 1).save_model(tmp_path / "m.ubj")
    made = job(tmp_path, kind, mode="upsert", key=["id"]).as_json()
    source = {"kind": "csv", "path": str(tmp_path / "in")}
    made |= {"source": source, "errors": {"max_rejected_fraction": 0.9}}
    made["model"] = {"kind": "xgboost", "path": str(tmp_path / "m.ubj"), "columns": ["x"]}
    spec = BatchInferenceSpec.model_validate(made)
    for at, text in enumerate(["id,x,label\n1,0.5,a", "id,x\n2,0.5", "x\n0.5", "id,label\n4,b"]):
        (tmp_path / f"in/{at}.csv").write_text(text)
    run(spec)
    assert rows_of(spec, "id", "label") == [(1, "a"), (2, None)]
    reasons = [row["error_message"] for row in rows_set_aside(spec)]
    assert [each.split(",")[0] for each in reasons] == [
        "the header lacks 'id'", "the header lacks 'x'",
    ]  # fmt: skip


def test_without_leave_a_plan_names_the_ways_out(tmp_path: Path, kind: str) -> None:
    spec = job(tmp_path, kind, evolve_schema=False)
    put(spec, "1", id=[1])
    run(spec)
    put(spec, "2", id=[2], label=["cat"])
    with pytest.raises(
        SchemaMismatch, match=r"\['label'\].*\(sink\.evolve_schema: true\), stop reading"
    ):
        make_plan(spec)
    grown = job(tmp_path, kind)
    run(grown)
    assert rows_of(grown, "id", "label") == [(1, None), (2, "cat")]


class OddOnes:
    """A model that says more of some rows."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """One of a few."""
        more = {"odd": batch["id"]} if batch["id"][0] % 2 else {}
        return {"doubled": batch["x"] * 2, **more}


@pytest.mark.parametrize("kind", ["delta"])
def test_a_column_that_comes_in_the_middle_of_a_run(tmp_path: Path, kind: str) -> None:
    model = PythonModel.model_validate({"class": f"{__name__}:OddOnes"})
    spec = job(tmp_path, kind).model_copy(update={"model": model})
    put(spec, "1", id=[0])
    run(spec)
    put(spec, "2", id=[2, 3, 4])
    assert run(spec) == 3
    assert rows_of(spec, "id", "odd") == [(0, None), (2, None), (3, 3), (4, None)]


@pytest.mark.parametrize("kind", ["delta"])
def test_a_preview_shows_it(tmp_path: Path, kind: str) -> None:
    model = PythonModel.model_validate({"class": f"{__name__}:OddOnes"})
    trial = trial_of(job(tmp_path, kind).model_copy(update={"model": model}), 3, "mine")
    put(trial, "1", id=[2, 3, 4])
    planned = make_plan(BatchInferenceSpec.model_validate(trial.as_json()), RunOptions(limit=3))
    assert predict(planned) == 3
    seen = staged_rows(planned)
    assert seen is not None
    assert seen.select(["id", "odd"]).to_pydict() == {"id": [2, 3, 4], "odd": [None, 3, None]}
    assert "of_growing_table" not in ParquetSink(path="out").as_json()  # no form has it


@pytest.mark.parametrize("kind", ["delta"])
def test_gates_look_at_a_new_column(tmp_path: Path, kind: str) -> None:
    """The first batch brings another one, and this a later batch."""
    spec = job(tmp_path, kind)
    put(spec, "1", id=[1])
    run(spec)
    put(spec, "2", id=[2, 3], more=[1, 2], label=pa.array([None, "cat"]))
    gated = spec.model_copy(update={"gates": [NullsGate(column="label", max_fraction=0.4)]})
    with pytest.raises(GateFailed, match=r"without label: 0\.5, at most 0\.4"):
        run(gated)


@pytest.mark.parametrize("kind", ["delta"])
def test_gates_and_types_of_a_column_that_a_night_lacks(tmp_path: Path, kind: str) -> None:
    """With a model whose columns are known, so that the plan looks for what the spec names."""
    import xgboost

    one = xgboost.DMatrix(np.eye(1), [1], feature_names=["x"])
    xgboost.train({}, one, 1).save_model(tmp_path / "m.ubj")
    model = XGBoostModel(path=str(tmp_path / "m.ubj"))
    gates = [NullsGate(column="label", max_fraction=1)]
    spec = job(tmp_path, kind, types={"label": "string"})
    spec = spec.model_copy(update={"model": model, "gates": gates})
    put(spec, "1", id=[1], label=["cat"])
    run(spec)
    put(spec, "2", id=[2])
    run(spec)
    assert rows_of(spec, "id", "label") == [(1, "cat"), (2, None)]
    (tmp_path / "in/1.parquet").unlink()
    assert full_run(spec).rows == 1  # as a preview reckons


@pytest.mark.parametrize("kind", ["delta"])
def test_types_of_what_is_published_stay(tmp_path: Path, kind: str) -> None:
    spec = job(tmp_path, kind)
    put(spec, "1", id=[1], a=[1])
    run(spec)
    put(spec, "2", id=[2], a=[0.5], b=["new"])
    assert "a is double, not int64" in refusal(make_plan(spec))


@pytest.mark.parametrize("kind", ["parquet"])
def test_files_take_none(tmp_path: Path, kind: str) -> None:
    """Whoever reads a folder takes its columns from one of the files."""
    (tmp_path / "in").mkdir()
    spec = spec_of(tmp_path / "in")
    put(spec, "1", id=[1])
    run(spec)
    put(spec, "2", id=[2], label=["cat"])
    with pytest.raises(SchemaMismatch, match=r"\['label'\].* stop reading them \(source"):
        make_plan(spec)


def test_upserts_replace_rows_that_lack_the_column(tmp_path: Path, kind: str) -> None:
    spec = job(tmp_path, kind, mode="upsert", key=["id"])
    put(spec, "1", id=[1, 2, 3])
    run(spec)
    put(spec, "2", id=[2], label=["cat"])
    run(spec)
    put(spec, "3", id=[3, 4])
    run(spec)
    assert rows_of(spec, "id", "label") == [(1, None), (2, "cat"), (3, None), (4, None)]
