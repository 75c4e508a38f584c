"""What Ray is told of the stages: the pipeline is built, and nothing runs."""

from typing import Any

import pytest

from tasks.ray_job import pipeline
from tests.ray_job.test_own_machine import ELSEWHERE, job_of, spec


class Told:
    """A dataset that only notes how each stage is to run."""

    def __init__(self) -> None:
        self.stages: dict[str, dict[str, Any]] = {}

    def read_datasource(self, source: Any, **options: Any) -> "Told":
        return self.noted("read", options)

    def map_batches_internal(self, function: Any, **options: Any) -> "Told":
        return self.noted(function.__name__, options)

    def write_datasink(self, sink: Any, **options: Any) -> "Told":
        return self.noted("write", options)

    def noted(self, stage: str, options: dict[str, Any]) -> "Told":
        self.stages[stage] = options
        return self


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
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tasks.ray_job.own_machine.cores", lambda: 8)
    told = Told()
    monkeypatch.setattr("ray.data.read_datasource", told.read_datasource)
    pipeline.run_pipeline(job_of(spec(**changes)), [(0, 1)], 0.0, lambda report: None, 3)
    assert [*told.stages] == stages
    assert told.stages["read"]["compute"].size == readers
    assert told.stages["write"]["concurrency"] == writers
    assert told.stages[stages[-2]]["compute"].initial_size == 3


@pytest.mark.parametrize(("asked", "wanted"), [(2, 2), ("auto", 1)])
def test_a_replica_holds_the_cores_that_it_was_given(
    asked: float | str, wanted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    monkeypatch.setattr("ray.data.read_datasource", told.read_datasource)
    job = job_of(spec(resources={"num_cpus": asked}))
    pipeline.run_pipeline(job, [(0, 1)], 0.0, lambda report: None, None)
    assert [*told.stages.values()][-2]["num_cpus"] == wanted


def test_a_replica_gets_what_its_resources_say(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setattr("ray.data.read_datasource", told.read_datasource)
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


def test_what_nobody_asked_for_is_not_asked_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setattr("ray.data.read_datasource", told.read_datasource)
    pipeline.run_pipeline(job_of(spec(cluster=ELSEWHERE)), [(0, 1)], 0.0, lambda report: None, None)
    replica = told.stages["Infer"]
    assert [replica[name] for name in ("num_gpus", "memory", "accelerator_type")] == [0, None, None]
    assert (replica["compute"].min_size, replica["compute"].max_size) == (1, 4)
