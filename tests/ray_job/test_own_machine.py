"""How a job uses a machine that is all there is."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

from flows.batch_inference import batch_inference
from tasks.machine import cores
from tasks.previewing import trial_of
from tasks.ray_job.counts import AFTER_CUT, BEFORE_CUT, STAGES
from tasks.ray_job.job import Job
from tasks.ray_job.own_machine import (
    cores_handed_out,
    fitted,
    most_readers,
    most_writers,
    preprocesses_in_replicas,
    replicas_at_first,
    with_cores,
)
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import parse_spec
from tests.flows.conftest import numbers as numbers  # a fixture
from tests.flows.conftest import published, spec_of
from tests.kinds.tiny_models import hollow_texts_model, predicted, rows_of, save_images, save_vit
from tests.listeners import listeners
from tests.test_waiting import PATIENCE, seen_to_run_the_job

STEP = {"kind": "select", "columns": ["x"]}
ELSEWHERE = {"kind": "local", "address": "127.0.0.1:6379"}
INLINE = {"kind": "inline"}
IN_REPLICAS: dict[str, tuple[dict[str, Any], float, tuple[str, ...], bool]] = {
    "a step": ({}, 0.0, STAGES, True),
    "half a core": ({"resources": {"num_cpus": 0.5}}, 0.0, STAGES, True),
    "kept rows elsewhere": ({"stages": {"preprocess": {"path": "/kept"}}}, 0.0, STAGES, True),
    "nothing to do": ({"steps": []}, 0.0, STAGES, False),
    "a GPU": ({}, 0.5, STAGES, False),
    "threads that a class may not use": ({"resources": {"num_cpus": 2}}, 0.0, STAGES, False),
    "workers of its own": ({"stages": {"preprocess": {"max_workers": 2}}}, 0.0, STAGES, False),
    "cores of its own": ({"stages": {"preprocess": {"num_cpus": 0.5}}}, 0.0, STAGES, False),
    "a Ray that runs": ({"cluster": ELSEWHERE}, 0.0, STAGES, False),
    "before the cut": ({}, 0.0, BEFORE_CUT, False),
    "after the cut": ({}, 0.0, AFTER_CUT, False),
}


def spec(**changes: Any) -> BatchInferenceSpec:
    raw = {
        "source": {"kind": "parquet", "path": "in"},
        "steps": [STEP],
        "model": {"kind": "python", "class": "a:B"},
        "sink": {"kind": "parquet", "path": "out"},
        "cluster": {"kind": "local"},
    }
    return parse_spec({**raw, **changes})


def job_of(
    wanted: BatchInferenceSpec, rows: int | None = None, stages: tuple[str, ...] = STAGES
) -> Job:
    return Job(
        spec=wanted,
        run_id="run",
        attempt=1,
        plan="",
        pins={},
        num_shards=1,
        todo_bytes=1,
        todo_rows=rows,
        todo_name="todo",
        stages=stages,
    )


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.ray_job.own_machine.cores", lambda: 8)


@pytest.mark.parametrize(
    ("changes", "num_gpus", "stages", "wanted"), IN_REPLICAS.values(), ids=IN_REPLICAS
)
def test_who_preprocesses(
    changes: dict[str, Any], num_gpus: float, stages: tuple[str, ...], wanted: bool
) -> None:
    assert preprocesses_in_replicas(spec(**changes), num_gpus, stages) is wanted


CLASS = {"kind": "python", "class": "a:B"}
SVM = {"kind": "sklearn", "path": "svm.skops"}
OWN_CODE = {"kind": "python", "function": "a:b"}
TILES = {"kind": "tile_images", "width": 64}
LARGE, SMALL = 40 << 20, 39 << 20
CORES: dict[str, tuple[int, int, dict[str, Any], float, float]] = {
    "two for a large model": (8, LARGE, {}, 0.0, 2.0),
    "one for a small model": (8, SMALL, {}, 0.0, 1.0),
    "as asked": (8, LARGE, {"resources": {"num_cpus": 4}}, 0.0, 4.0),
    "one as asked": (8, LARGE, {"resources": {"num_cpus": 1}}, 0.0, 1.0),
    "one where another core would be left over": (5, LARGE, {}, 0.0, 1.0),
    "one of one": (1, LARGE, {}, 0.0, 1.0),
    "so many replicas that each has one": (8, LARGE, {"resources": {"min_replicas": 5}}, 0.0, 1.0),
    "as many replicas as have two": (8, LARGE, {"resources": {"min_replicas": 4}}, 0.0, 2.0),
    "one beside a GPU": (8, LARGE, {}, 1.0, 1.0),
    "one of a Ray that runs": (8, LARGE, {"cluster": ELSEWHERE}, 0.0, 1.0),
    "one beside workers": (8, LARGE, {"stages": {"preprocess": {"max_workers": 2}}}, 0.0, 1.0),
    "one for own code": (8, LARGE, {"steps": [STEP, OWN_CODE]}, 0.0, 1.0),
    "one for tiles": (8, LARGE, {"steps": [TILES]}, 0.0, 1.0),
    "all inline": (8, LARGE, {"cluster": INLINE}, 0.0, 8.0),
    "all inline, beside a GPU that it leaves alone": (8, LARGE, {"cluster": INLINE}, 1.0, 8.0),
    "all inline, for steps have a thread of theirs": (
        8,
        LARGE,
        {"cluster": INLINE, "steps": [TILES]},
        0.0,
        8.0,
    ),
    "no more than eight inline": (64, LARGE, {"cluster": INLINE}, 0.0, 8.0),
    "as asked inline": (8, LARGE, {"cluster": INLINE, "resources": {"num_cpus": 3}}, 0.0, 3.0),
    "all inline for a small model": (8, SMALL, {"cluster": INLINE}, 0.0, 8.0),
    "one inline for a class": (8, SMALL, {"cluster": INLINE, "model": CLASS}, 0.0, 1.0),
    "one inline for what may use no more": (8, 0, {"cluster": INLINE, "model": SVM}, 0.0, 1.0),
}


@pytest.mark.parametrize(
    ("here", "weights", "changes", "num_gpus", "wanted"), CORES.values(), ids=CORES
)
def test_how_many_cores_a_replica_has(
    here: int,
    weights: int,
    changes: dict[str, Any],
    num_gpus: float,
    wanted: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tasks.ray_job.own_machine.cores", lambda: here)
    asked = spec(**{"model": hollow_texts_model(tmp_path, weights), **changes})
    given = fitted(job_of(asked), num_gpus, 8.0).spec
    assert given.resources.num_cpus == wanted
    if wanted == 2:
        assert given.resources.most_replicas() == here // 2
        assert preprocesses_in_replicas(given, num_gpus)


def test_a_preview_in_this_process_is_of_a_core_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless a run would be in this process: what it would take is reckoned from that."""
    monkeypatch.setattr("tasks.ray_job.own_machine.cores", lambda: 8)
    model = hollow_texts_model(tmp_path, LARGE)
    for cluster, wanted in (({"kind": "local"}, 1), (ELSEWHERE, 1), (INLINE, 8)):
        trial = trial_of(spec(model=model, cluster=cluster), 10, "p")
        assert trial.cluster.kind == "inline"
        assert with_cores(trial, 0.0).resources.num_cpus == wanted


def test_a_model_of_the_hub_is_taken_to_be_large() -> None:
    elsewhere = {"kind": "huggingface", "task": "feature-extraction", "name_or_path": "any/model"}
    hub = spec(model=elsewhere)
    assert hub.model.prefers_threads
    named = {"kind": "torchvision", "name": "resnet18"}
    assert spec(model=named).model.prefers_threads
    assert not spec().model.prefers_threads


REPLICAS: dict[str, tuple[dict[str, Any], float, float, int]] = {
    "a core each": ({}, 0.0, 0.0, 8),
    "tenths of cores": ({"resources": {"num_cpus": 0.1}}, 0.0, 0.0, 80),
    "more cores than there are": ({"resources": {"num_cpus": 16}}, 0.0, 0.0, 1),
    "as asked": ({"resources": {"max_replicas": 3}}, 0.0, 0.0, 3),
    "more than there is room for": ({"resources": {"max_replicas": 9}}, 0.0, 0.0, 8),
    "at least as asked": ({"resources": {"min_replicas": 12}}, 0.0, 0.0, 12),
    "a GPU each": ({}, 1.0, 2.0, 2),
    "half a GPU each": ({}, 0.5, 2.0, 4),
}


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(("changes", "num_gpus", "gpus", "wanted"), REPLICAS.values(), ids=REPLICAS)
def test_how_many_replicas(
    changes: dict[str, Any], num_gpus: float, gpus: float, wanted: int
) -> None:
    sized = fitted(job_of(spec(**changes)), num_gpus, gpus)
    assert sized.spec.resources.most_replicas() == wanted


AT_FIRST: dict[str, tuple[dict[str, Any], int, int | None, int, int]] = {
    "all, for a hundred megabytes": ({}, 100 << 20, 1_000, 64, 8),
    "as few rows as one can do": ({}, 100 << 20, 100, 64, 1),
    "many rows through a few weights": ({}, 1 << 10, 1_000_000, 64, 1),
    "very many of them": ({}, 1 << 10, 1_000_000_000, 64, 8),
    "rows that nobody has counted": ({}, 100 << 20, None, 64, 1),
    "room for three": ({}, 1 << 30, 1_000, 20, 3),
    "room for none": ({}, 1 << 30, 1_000, 4, 1),
    "at least as asked": ({"resources": {"min_replicas": 2}}, 1 << 30, 10, 4, 2),
    "at most as asked": ({"resources": {"max_replicas": 3}}, 100 << 20, 1_000, 64, 3),
    "trees": (
        {"model": {"kind": "xgboost", "path": "model.ubj", "columns": ["x"]}},
        9,
        10**9,
        64,
        1,
    ),
    "code that nobody knows": ({"model": {"kind": "python", "class": "a:B"}}, 9, 10**9, 64, 1),
}


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("changes", "weights", "rows", "free", "wanted"), AT_FIRST.values(), ids=AT_FIRST
)
def test_a_job_begins_with_all_replicas_where_its_weights_say_that_it_is_long(
    changes: dict[str, Any],
    weights: int,
    rows: int | None,
    free: int,
    wanted: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tasks.ray_job.own_machine.free_memory", lambda: free << 30)
    file = tmp_path / "weights.onnx"
    with file.open("wb") as opened:
        opened.truncate(weights)
    given = spec(**{"model": {"kind": "onnx", "path": str(file), "columns": ["x"]}, **changes})
    assert replicas_at_first(fitted(job_of(given), 0.0, 0.0), rows) == wanted


REMOTE = {"kind": "parquet", "path": "s3://bucket/out"}
WRITERS: dict[str, tuple[int, dict[str, Any], int]] = {
    "two of two cores": (2, {}, 2),
    "half of six cores": (6, {}, 3),
    "four of many cores": (64, {}, 4),
    "as asked": (2, {"stages": {"write": {"max_workers": 3}}}, 3),
    "storage elsewhere": (2, {"sink": REMOTE}, 4),
    "a Ray that runs": (2, {"cluster": ELSEWHERE}, 4),
}


@pytest.mark.parametrize(("cores", "changes", "wanted"), WRITERS.values(), ids=WRITERS)
def test_how_many_writers(
    cores: int, changes: dict[str, Any], wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.ray_job.own_machine.cores", lambda: cores)
    assert most_writers(spec(**changes)) == wanted


FAR = {"kind": "parquet", "path": ["in", "s3://bucket/in"]}
READERS: dict[str, tuple[int, dict[str, Any], int | None]] = {
    "two of two cores": (2, {}, 2),
    "half of many cores": (64, {}, 32),
    "as asked": (2, {"stages": {"read": {"max_workers": 7}}}, 7),
    "a share of a core as asked": (2, {"stages": {"read": {"num_cpus": 0.2}}}, None),
    "a URL of the disk": (2, {"source": {"kind": "parquet", "path": "file:///in"}}, 2),
    "a catalog's table": (2, {"source": {"kind": "iceberg", "path": "sales.orders"}}, None),
    "storage elsewhere": (2, {"source": FAR}, None),
    "a Ray that runs": (2, {"cluster": ELSEWHERE}, None),
}


@pytest.mark.parametrize(("cores", "changes", "wanted"), READERS.values(), ids=READERS)
def test_how_many_readers(
    cores: int, changes: dict[str, Any], wanted: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.ray_job.own_machine.cores", lambda: cores)
    assert most_readers(spec(**changes)) == wanted


@pytest.mark.usefixtures("eight_cores")
def test_cores_are_handed_out_for_reading_beside_replicas() -> None:
    assert cores_handed_out(spec()) == 9
    assert cores_handed_out(spec(stages={"preprocess": {"max_workers": 4}})) == 8
    many = spec(resources={"min_replicas": 8}, stages={"preprocess": {"num_cpus": 2}})
    assert cores_handed_out(many) == 10


def test_on_one_core_stages_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.ray_job.connection import connection

    monkeypatch.setattr("tasks.ray_job.own_machine.cores", lambda: 1)
    wide = spec(stages={"preprocess": {"num_cpus": 1, "max_workers": 2}})
    assert connection(wide, {})["num_cpus"] == 2
    assert connection(spec(), {})["num_cpus"] == 2


@pytest.mark.ray
@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server", "short_ray_folder")
def test_replicas_are_added_and_prepare_their_own_batches(numbers: Path) -> None:
    """On a Ray of the run's own; both stages are counted, and in one process each row.

    The first replica waits for a second one, which comes since so much is left: ten files, in
    batches for both, of the rows of more than one.
    """
    replicas = numbers.parent / "replicas"
    replicas.mkdir()
    ours = spec_of(
        numbers,
        stages={"read": {"max_workers": 1}},
        steps=[{"kind": "python", "function": "predictors:prepared_by"}],
        model={
            "kind": "python",
            "class": "predictors:PredictedBy",
            # One comes where a core is idle, which other tests may keep busy for a while.
            "init": {"folder": str(replicas), "patience": 240.0},
        },
        cluster={"kind": "local", "object_store_gb": 0.2},
        resources={"max_replicas": 2, "num_cpus": 0.5},
    )
    # A driver that has started its Ray while the run was planned.
    with seen_to_run_the_job(ours) as driver, ThreadPoolExecutor() as beside:
        looked = beside.submit(listening_once_there, driver, replicas)
        report = batch_inference(ours)
    near, far = looked.result()
    assert len(near) > len(["the head", "a node", "the driver", "a replica"])
    assert not far, "other machines reach these"
    assert not [*Path(os.environ["RAY_TMPDIR"]).glob("ray/session_*")]
    rows = published(ours)
    assert [row["id"] for row in rows] == list(range(1000))
    assert all(row["prepared_by"] == row["predicted_by"] for row in rows)
    stages = report["stages"]
    assert [stages[stage]["rows"] for stage in STAGES] == [1000] * 4
    # Four batches; one that waits long for the second replica comes out in parts.
    parts = [pq.read_metadata(file).num_rows for file in Path(ours.sink.path).glob("*.parquet")]
    assert len(parts) >= 4
    assert max(parts) == 256
    assert len(stages["infer"]["replicas"]) == len([*replicas.iterdir()]) == 2
    assert [each.read_text() for each in replicas.iterdir()] == ["", ""], "helpers of Ray Data's"
    assert os.getpid() not in {row["predicted_by"] for row in rows}


def listening_once_there(driver: psutil.Process, replicas: Path) -> tuple[list[str], list[str]]:
    """Where all that a driver has started listens, once there is a replica."""
    until = time.monotonic() + PATIENCE
    while not any(replicas.iterdir()) and time.monotonic() < until:
        time.sleep(0.1)
    return listeners(driver)


@pytest.mark.ray
@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server", "short_ray_folder")
def test_a_large_model_gets_threads_and_predicts_what_it_does_alone(tmp_path: Path) -> None:
    """A replica for each pair of cores."""
    vit, folder = tmp_path / "vit", tmp_path / "images"
    save_vit(vit, width=100_000)
    pictures = save_images(folder, 40)
    task = "image-classification"
    ours = spec_of(
        folder,
        source={"kind": "images", "path": str(folder)},
        model={"kind": "huggingface", "task": task, "name_or_path": str(vit)},
        cluster={"kind": "local", "object_store_gb": 0.2},
        resources={"min_replicas": max(1, cores() // 2)},
    )
    assert with_cores(ours, 0.0).resources.num_cpus == (2 if cores() % 2 == 0 else 1)
    report = batch_inference(ours)
    rows = pq.read_table(ours.sink.path).sort_by("path")
    alone = predicted(vit, task, rows_of("image", pictures))
    assert rows["predicted_label"] == alone["predicted_label"]
    found, wanted = (each["predicted_score"].to_numpy() for each in (rows, alone))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert [report["stages"][stage]["rows"] for stage in STAGES] == [40] * 4
    if cores() % 2 == 0:
        assert len(report["stages"]["infer"]["replicas"]) <= cores() // 2
