"""Stages as Ray calls them: with threads, and named where they cannot be built."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tasks.errors import BatchInferenceError, InvalidSpec, StageFailed
from tasks.kinds.models.huggingface import HuggingFaceModel
from tasks.kinds.models.model import Function
from tasks.plan import make_plan
from tasks.protocol.batch import ROW, RowBatch
from tasks.ray_job.datasource import to_block
from tasks.ray_job.job import Job
from tasks.ray_job.operators import (
    BUILT,
    Infer,
    PreprocessAndInfer,
    preprocess,
    preprocessing,
    raise_if_ended_from_outside,
    threads_of_worker,
)
from tasks.ray_job.reading import read_share
from tasks.ray_job.stage_adapter import StageAdapter
from tasks.run import left_to_do, next_attempt
from tests.flows.conftest import numbers as numbers  # a fixture
from tests.flows.conftest import spec_of
from tests.flows.user_code.predictors import LacksItsFile
from tests.ray_job.test_own_machine import job_of, spec

NO_STEP = {"steps": [{"kind": "python", "function": "predictors:LacksItsFile"}]}
NO_MODEL = {"model": {"kind": "python", "class": "predictors:LacksItsFile"}}
UNCALLABLE = {"model": {"kind": "python", "class": "predictors:CannotBeCalled"}}


def ignore(report: object) -> None:
    """Count nothing."""


@pytest.fixture(autouse=True)
def outside_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no node whose name an error could carry, and no actor."""
    monkeypatch.setattr("tasks.ray_job.operators.end_if_forgotten", lambda: None)
    monkeypatch.setattr("tasks.ray_job.operators.on_this_node", lambda error: error)


def raised(changes: dict[str, Any], folder: Path) -> BatchInferenceError:
    """What a stage raises at its first batch, in this process."""
    planned = make_plan(spec_of(folder, **changes))
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    batch = next(read_share(job, 0, 1, ignore))
    with pytest.raises(BatchInferenceError) as caught:
        next(stage_of(job, "steps" in changes, batch))
    return caught.value


def stage_of(job: Job, steps: bool, batch: RowBatch) -> Iterator[RowBatch]:
    """The stage of the steps, or of the model, over a batch."""
    run = preprocessing(job, 1, ignore) if steps else Infer(job, 0, ignore).run
    yield from run(batch)


@pytest.mark.parametrize(
    ("stage", "changes"), [("preprocess", NO_STEP), ("infer", NO_MODEL)], ids=["step", "model"]
)
def test_a_stage_that_cannot_be_built_is_named(
    stage: str, changes: dict[str, Any], numbers: Path
) -> None:
    error = raised(changes, numbers)
    assert isinstance(error, StageFailed)
    line = LacksItsFile.__init__.__code__.co_firstlineno + 1
    where = f"(predictors.py:{line} in __init__)"
    assert str(error) == f"stage {stage} failed: ValueError: no file vocab.txt {where}"
    assert isinstance(error.__cause__, ValueError)


@pytest.mark.parametrize(
    ("stage", "changes"),
    [
        ("preprocess", {"steps": [{"kind": "python", "function": "predictors:EndsItself"}]}),
        ("infer", {"model": {"kind": "python", "class": "predictors:EndsItself"}}),
    ],
    ids=["step", "model"],
)
def test_code_that_ends_its_process_as_it_is_built_is_told(
    stage: str, changes: dict[str, Any], numbers: Path
) -> None:
    error = raised(changes, numbers)
    assert isinstance(error, StageFailed)
    assert f"stage {stage} failed" in str(error)
    assert "sys.exit('no licence')" in str(error)


def test_what_ends_a_process_from_outside_passes() -> None:
    taken_away = SystemExit()
    vars(taken_away)["ray_terminate_msg"] = "the node is taken away"
    for error in (KeyboardInterrupt(), taken_away):
        with pytest.raises(type(error)):
            raise_if_ended_from_outside(error)
    raise_if_ended_from_outside(SystemExit(1))


def test_a_wrong_spec_is_no_stages_fault(numbers: Path) -> None:
    error = raised(UNCALLABLE, numbers)
    assert isinstance(error, InvalidSpec)
    assert error.stage is None
    assert str(error).startswith("model.class: 'predictors:CannotBeCalled' makes an")


def test_images_are_prepared_on_the_threads_of_their_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a replica, or of a worker of their own."""
    told = list[int]()

    def preprocessor(model: HuggingFaceModel, num_threads: int = 1) -> Function:
        told.append(num_threads)
        return lambda rows: rows

    monkeypatch.setattr(HuggingFaceModel, "preprocessor", preprocessor)
    monkeypatch.setattr("tasks.ray_job.operators.in_same_parts", lambda run, job: run)  # asks Ray
    monkeypatch.setattr("tasks.ray_job.operators.InHand.of_this_task", lambda job, stage: None)
    model_alone = StageAdapter("infer", (lambda rows: rows,))
    monkeypatch.setattr("tasks.ray_job.operators.infer_stage", lambda *given: model_alone)
    monkeypatch.setattr("tasks.ray_job.operators.spare_memory", lambda job, limit: None)
    monkeypatch.setattr("tasks.ray_job.stage_functions.cores", lambda: 8)
    model = {"kind": "huggingface", "task": "image-classification", "name_or_path": str(tmp_path)}
    changes = {"resources": {"num_cpus": 2}, "stages": {"preprocess": {"num_cpus": 3}}}
    job = replace(
        job_of(spec(model=model, steps=[], **changes)), pins={"fingerprints": {"code": ""}}
    )
    rows = RowBatch(rows=pa.table({ROW: [0]}), sources={0: "a"}, first_rows={0: 0})
    BUILT.clear()
    [*PreprocessAndInfer(job, 0.0, ignore).run(rows)]
    BUILT.clear()
    [*preprocess(to_block(rows), job, ignore)]
    BUILT.clear()
    assert told == [2, 3]


@pytest.mark.parametrize(("set_by_user", "threads"), [(None, "2"), ("1", "1")])
def test_tokenizers_use_the_threads_of_their_worker(
    set_by_user: str | None, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.ray_job.stage_functions.cores", lambda: 8)
    monkeypatch.setattr(os, "environ", {"RAYON_NUM_THREADS": set_by_user} if set_by_user else {})
    assert threads_of_worker(2.0) == 2
    assert os.environ["RAYON_NUM_THREADS"] == threads


@pytest.mark.parametrize(
    ("num_gpus", "device"), [(0, "cpu"), (0.25, "cuda"), (1, "cuda"), (4, "cuda")]
)
def test_who_holds_a_gpu_predicts_on_it(
    num_gpus: float, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def stage_on(job: Job, device: str, num_threads: int) -> StageAdapter:
        asked.append(device)
        return StageAdapter("infer", (lambda rows: rows,))

    monkeypatch.setattr("tasks.ray_job.operators.infer_stage", stage_on)
    monkeypatch.setattr("tasks.ray_job.operators.spare_memory", lambda job, limit: None)
    monkeypatch.setattr("tasks.ray_job.operators.with_device", lambda report, num_gpus: report)
    Infer(job_of(spec()), num_gpus, ignore)
    assert asked == [device]
