"""A run is told that it needs no Ray where it is small or cores are few, and only then."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.plan import make_plan
from tasks.without_ray import (
    advice_without_ray,
    one_process_does,
    seconds_of,
    seconds_of_last_rows,
    seconds_per_row,
)
from tests.flows.conftest import spec_of
from tests.reporting import classify_spec, make_inputs, run_spec

LOCAL = {"kind": "local"}
NO_GPU = {"num_gpus": 0}


def numbers(folder: Path, rows: int) -> Path:
    source = folder / "numbers"
    source.mkdir()
    ids = list(range(rows))
    pq.write_table(pa.table({"id": ids, "x": [float(i) for i in ids]}), source / "0.parquet")
    return source


@pytest.mark.parametrize(
    ("rows", "changes", "is_small"),
    [
        (100, {"cluster": LOCAL, "resources": NO_GPU}, True),
        (20_000, {"cluster": LOCAL, "resources": NO_GPU}, False),
        (100, {"cluster": LOCAL, "resources": {"num_gpus": 1}}, False),
        (100, {"cluster": {**LOCAL, "address": "10.0.0.1:1"}, "resources": NO_GPU}, False),
        (100, {"cluster": {"kind": "inline"}, "resources": NO_GPU}, False),
        (100, {"cluster": LOCAL, "resources": {**NO_GPU, "min_replicas": 2}}, False),
        (100, {"cluster": LOCAL, "environment": {"env_vars": {"A": "b"}}}, False),
    ],
)
def test_few_rows_need_no_ray(
    rows: int, changes: Any, is_small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.plan.check_spec", lambda spec: {"model": "", "code": ""})
    planned = make_plan(spec_of(numbers(tmp_path, rows), **changes), save=False)
    advice = advice_without_ray(planned)
    assert (advice is not None) == is_small
    if advice:
        assert " bytes)" in advice
        assert "cluster.kind: inline" in advice


TEXTS = {"kind": "huggingface", "task": "feature-extraction", "name_or_path": "any"}
WRITTEN = {"kind": "template", "template": "{x}", "column": "text"}
OWN_STEP = {"kind": "python", "function": "a:b"}
LAKE = {"kind": "parquet", "path": "s3://lake/in"}


@pytest.mark.parametrize(
    ("here", "changes", "wanted"),
    [
        (2, {}, True),
        (1, {"model": {"kind": "xgboost", "path": "model.ubj"}}, True),
        (3, {}, False),
        (2, {"model": {"kind": "python", "class": "a:B"}}, False),
        (2, {"steps": [OWN_STEP]}, False),
        (2, {"source": LAKE}, False),
        (2, {"source": {"kind": "iceberg", "path": "db.rides"}}, False),
        (2, {"resources": {"num_cpus": 1}}, False),
        (2, {"resources": {"num_cpus": 2}}, True),
        (2, {"model": {"kind": "sklearn", "path": "svm.skops"}}, False),
    ],
)
def test_one_process_does_where_the_model_has_all_of_few_cores(
    here: int, changes: Any, wanted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.without_ray.cores", lambda: here)
    assert one_process_does(spec_of(tmp_path, **{"model": TEXTS, **changes})) is wanted


def test_who_has_few_cores_is_told_of_less_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.plan.check_spec", lambda spec: {"model": "", "code": ""})
    monkeypatch.setattr("tasks.without_ray.cores", lambda: 2)
    source = numbers(tmp_path, 20_000)

    def advice(**changes: Any) -> str | None:
        given = {"cluster": LOCAL, "resources": NO_GPU, "steps": [WRITTEN], **changes}
        spec = spec_of(source, model=TEXTS, **given)
        return advice_without_ray(make_plan(spec, save=False))

    said = advice()
    assert said is not None
    assert said.startswith("2 cores, no GPU, and a model that uses all cores by itself: cluster.ki")
    assert advice(resources={"num_gpus": 1}) is None
    assert advice(cluster={"kind": "inline"}) is None


def test_the_speed_of_the_last_version_counts_where_it_is_known() -> None:
    took = "10,000 rows, 2.0 s if each takes as long as in the last version"
    assert seconds_of(10_000, 0.0002) == took
    assert seconds_of(100, 1.0) is None


STAGES = {"read": {"seconds": 1.0}, "infer": {"seconds": 40.0}, "write": {"seconds": 2.0}}


def test_a_row_takes_what_one_worker_of_the_slowest_stage_had_with_it() -> None:
    """Of a row of the source: a step may make twenty of it, and 16 replicas may share them."""
    rows = {"read": 1_000, "written": 20_000}
    manifest = {"rows": rows, "stages": STAGES, "held": {"gpu_hours": 0.0}}
    assert seconds_per_row(manifest) == 0.04
    assert seconds_per_row({**manifest, "held": {"gpu_hours": 0.2}}) is None
    assert seconds_per_row({**manifest, "rows": {"read": 0}}) is None
    assert seconds_per_row({"rows_per_second": 100.0}) is None


def test_the_last_versions_rows_are_what_is_reckoned_with(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    planned, report = run_spec(classify_spec(tmp_path))
    spent = max(stage["seconds"] for stage in report.as_json()["stages"].values())
    make_inputs(tmp_path / "in" / "new", files=1)
    following = make_plan(planned.spec)
    assert seconds_of_last_rows(following) == pytest.approx(spent / report.rows["read"])


def test_a_ray_that_runs_already_need_not_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.plan.check_spec", lambda spec: {"model": "", "code": ""})
    planned = make_plan(spec_of(numbers(tmp_path, 100), cluster=LOCAL, resources=NO_GPU))
    assert advice_without_ray(planned)
    monkeypatch.setattr("tasks.clusters.own_ray.ray_at_hand", lambda: "127.0.0.1:6379")
    assert advice_without_ray(planned) is None
