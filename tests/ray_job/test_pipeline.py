"""What Ray is told of the stages: the pipeline is built, and nothing runs, but once."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.ray_job import pipeline
from tests.ray_driver import answer_of
from tests.ray_job.test_own_machine import ELSEWHERE, job_of, spec

BATCHES = 60
HELD = f"""
import sys
import ray
from ray.data import DataContext, Datasink
from ray.data._internal.execution.execution_callback import ExecutionCallback
from tasks.ray_job import pipeline
from tasks.ray_job.watch import Watch
from tests.ray_job.test_own_machine import job_of, spec

class Nowhere(Datasink):
    def __init__(self, job, report): pass
    def get_name(self): return "write"
    def write(self, blocks, ctx): [*blocks]

class Held(ExecutionCallback):
    def on_execution_step(self, executor):
        worker = ray._private.worker.global_worker.core_worker
        blocks = sum(len(each._output_blocks_stats) for each in [*executor._topology][1:])
        Held.at_last = len(worker.get_all_reference_counts()), blocks

ray.init(address=sys.argv[1], logging_level="ERROR")
DataContext.get_current().custom_execution_callback_classes = [Watch, Held]
pipeline.RecordDatasink = Nowhere
DataContext.get_current().enable_progress_bars = False
DataContext.get_current().target_max_block_size = 1  # as for a job: each row is a block
batches = ray.data.range({BATCHES}, override_num_blocks=1)
pipeline.run_to_the_end(pipeline.written(batches, job_of(spec()), print))
answer(Held.at_last)
"""


class Told:
    """A dataset that only notes how each stage is to run."""

    def __init__(self) -> None:
        from ray.data._internal.logical.operators import InputData

        self.stages: dict[str, dict[str, Any]] = {}
        self._logical_plan, self.context = SimpleNamespace(dag=InputData([])), None

    def read_datasource(self, source: Any, **options: Any) -> "Told":
        return self.noted("read", options)

    def map_batches_internal(self, function: Any, **options: Any) -> "Told":
        return self.noted(function.__name__, options)

    def _from_parent(self, rows: Any, plan: Any) -> "Told":
        return self.noted("write", {"compute": plan.dag.compute})

    def iter_internal_ref_bundles(self) -> Iterator[Any]:
        return iter(())

    def noted(self, stage: str, options: dict[str, Any]) -> "Told":
        self.stages[stage] = options
        return self


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    told = Told()
    monkeypatch.setattr("ray.data.read_datasource", told.read_datasource)
    monkeypatch.setattr(pipeline, "Dataset", told)
    return told


@pytest.mark.parametrize(
    ("changes", "readers", "writers", "stages"),
    [
        ({}, 4, 4, ["read", "PreprocessAndInfer", "write"]),
        (
            {"stages": {"read": {"max_workers": 7}, "write": {"max_workers": 3}}},
            7,
            3,
            ["read", "PreprocessAndInfer", "write"],
        ),
        ({"cluster": ELSEWHERE}, None, 4, ["read", "preprocess", "Infer", "write"]),
    ],
    ids=["a machine of its own", "as asked", "a Ray that runs"],
)
def test_each_stage_gets_its_workers(
    changes: dict[str, Any],
    readers: int | None,
    writers: int,
    stages: list[str],
    told: Told,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tasks.ray_job.own_machine.cores", lambda: 8)
    pipeline.run_pipeline(job_of(spec(**changes)), [(0, 1)], 0.0, lambda report: None, 3)
    assert [*told.stages] == stages
    assert told.stages["read"]["compute"].size == readers
    assert told.stages["write"]["compute"].size == writers
    assert told.stages[stages[-2]]["compute"].initial_size == 3


@pytest.mark.parametrize(("asked", "wanted"), [(2, 2), ("auto", 1)])
def test_a_replica_holds_the_cores_that_it_was_given(
    asked: float | str, wanted: float, told: Told
) -> None:
    job = job_of(spec(resources={"num_cpus": asked}))
    pipeline.run_pipeline(job, [(0, 1)], 0.0, lambda report: None, None)
    assert [*told.stages.values()][-2]["num_cpus"] == wanted


def test_a_replica_gets_what_its_resources_say(told: Told) -> None:
    resources = {
        "memory_gb": 1.5,
        "accelerator_type": "A100",
        "min_replicas": 2,
        "max_replicas": 5,
    }
    job = job_of(spec(resources=resources, cluster=ELSEWHERE))
    pipeline.run_pipeline(job, [(0, 1)], 0.5, lambda report: None, None)
    replica = told.stages["Infer"]
    assert replica["num_gpus"] == 0.5
    assert replica["memory"] == 1.5 * 2**30
    assert replica["accelerator_type"] == "A100"
    assert (replica["compute"].min_size, replica["compute"].max_size) == (2, 5)


def test_what_nobody_asked_for_is_not_asked_of_ray(told: Told) -> None:
    pipeline.run_pipeline(job_of(spec(cluster=ELSEWHERE)), [(0, 1)], 0.0, lambda report: None, None)
    replica = told.stages["Infer"]
    assert [replica[name] for name in ("num_gpus", "memory", "accelerator_type")] == [0, None, None]
    assert (replica["compute"].min_size, replica["compute"].max_size) == (1, 4)


@pytest.mark.ray
def test_nothing_is_kept_of_what_is_written(ray_address: str) -> None:
    """Of a job of hours it would be gigabytes; looked at when all is written."""
    refs, blocks = answer_of(HELD, ray_address)
    assert max(refs, blocks) < BATCHES / 2
