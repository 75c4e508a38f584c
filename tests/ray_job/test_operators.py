"""A stage that cannot be built is the one that failed, on Ray too."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tasks.errors import BatchInferenceError, InvalidSpec, StageFailed
from tasks.plan import make_plan
from tasks.protocol.batch import RowBatch
from tasks.ray_job.job import Job
from tasks.ray_job.operators import Infer, preprocessing
from tasks.ray_job.reading import read_share
from tasks.run import left_to_do, next_attempt
from tests.clusters.small_job import whole_run
from tests.flows.conftest import numbers as numbers  # a fixture
from tests.flows.conftest import spec_of

NO_STEP = {"steps": [{"kind": "python", "function": "predictors:LacksItsFile"}]}
NO_MODEL = {"model": {"kind": "python", "class": "predictors:LacksItsFile"}}
UNCALLABLE = {"model": {"kind": "python", "class": "predictors:CannotBeCalled"}}


def ignore(report: object) -> None:
    """Count nothing."""


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
    assert str(error) == f"stage {stage} failed: ValueError: no file vocab.txt"
    assert isinstance(error.__cause__, ValueError)


def test_a_wrong_spec_is_no_stages_fault(numbers: Path) -> None:
    error = raised(UNCALLABLE, numbers)
    assert isinstance(error, InvalidSpec)
    assert error.stage is None
    assert str(error).startswith("model.class: 'predictors:CannotBeCalled' makes a")


@pytest.mark.ray
def test_what_arrives_from_ray_names_the_stage(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a Ray of the run's own, whose replicas prepare their own batches."""
    spec = spec_of(numbers, cluster={"kind": "local", "object_store_gb": 0.2}, **NO_STEP)
    with TemporaryDirectory(prefix="own-") as folder:  # short, for Ray's sockets
        monkeypatch.setenv("RAY_TMPDIR", folder)
        with pytest.raises(StageFailed) as caught:
            whole_run(spec)
    assert caught.value.stage == "preprocess"
    assert str(caught.value) == "stage preprocess failed: ValueError: no file vocab.txt"
