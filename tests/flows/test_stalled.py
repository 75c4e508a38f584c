"""A job that does not move ends with an error that says which stage, and what it waits for."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prefect.task_runners import ThreadPoolTaskRunner

from flows.batch_inference import batch_inference
from tasks.errors import InvalidSpec, NoProgress
from tasks.job_look import Look
from tasks.plan import make_plan
from tasks.ray_job.counts import STAGES
from tasks.run import left_to_do, next_attempt
from tasks.stages import TURN_SECONDS, speaks_of_stall
from tasks.timeouts import Stall, stuck_stage
from tests.flows.conftest import spec_of
from tests.flows.jobs_cluster import await_that

HOLD = """
import ray, sys
ray.init(address={address!r}, logging_level="ERROR")
@ray.remote(num_cpus=2)
class Holder:
    def here(self): return True
holder = Holder.remote()
ray.get(holder.here.remote())
open(sys.argv[1], "w").close()
sys.stdin.read()
"""


@contextmanager
def cores_held(address: str, folder: Path) -> Iterator[None]:
    """Another job holds two of the head's four cores."""
    held = folder / "held"  # Ray has words of its own for a driver's standard output
    command = [sys.executable, "-c", HOLD.format(address=address), str(held)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        await_that(lambda: held.exists() or process.poll() is not None, "no cores are held")
        assert process.poll() is None
        yield
        process.communicate()


def losing_patience(
    patch: pytest.MonkeyPatch, seconds: float, where: Callable[[dict[str, Any]], bool]
) -> set[str]:
    """Have nothing move for so long only where a job says such things; else as its spec has it.

    Returns:
        What it said then that it waits for.
    """
    limit, seen = Stall.limit, set[str]()

    def limit_there(stall: Stall, progress: dict[str, Any] | None) -> float:
        if progress is None or not where(progress):
            return limit(stall, progress)
        seen.add(progress["waits_for"])
        return limit(replace(stall, limit_seconds=seconds), progress)

    patch.setattr(Stall, "limit", limit_there)
    return seen


@pytest.mark.ray
@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_a_model_without_a_place_is_named_with_what_it_waits_for(
    numbers: Path, ray_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(
        numbers,
        cluster={"kind": "local", "address": ray_address},
        resources={"num_cpus": 3.5},
    )
    losing_patience(monkeypatch, 1.0, lambda said: said["waits_for"] and said["state"] != "queued")
    with cores_held(ray_address, numbers.parent), pytest.raises(NoProgress) as caught:
        batch_inference(spec)
    assert caught.value.stage == "infer"
    assert "waits for a place for 1 replica of infer (3.5 CPU" in str(caught.value)


@pytest.mark.ray
@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_a_model_that_leaves_no_core_to_readers_is_refused(numbers: Path, ray_address: str) -> None:
    cluster = {"kind": "local", "address": ray_address}
    spec = spec_of(numbers, cluster=cluster, resources={"num_cpus": 4})
    with pytest.raises(InvalidSpec, match=r"4\.5 CPU cores must be free at .* the cluster has 4"):
        batch_inference(spec)


def progress(works_at: str | None = None, filtered: int = 0, **rows: int) -> dict[str, Any]:
    """What a job says: rows by stage, and those that steps have filtered.

    A stage that is not named has nothing to do.
    """
    stages = {
        stage: {
            "rows": rows.get(stage, 0),
            "rejected": 0,
            "filtered": filtered if stage == "preprocess" else 0,
            "state": "running" if stage in rows else "done",
            "started": 1.0 if rows.get(stage) else None,
        }
        for stage in STAGES
    }
    return {"works_at": works_at, "waits_for": None, "stages": stages}


@pytest.mark.parametrize(
    ("said", "stage"),
    [
        (None, "read"),
        (progress(read=0, infer=0, write=0), "read"),
        (progress(read=10, infer=0, write=0), "infer"),
        (progress(read=10, preprocess=4, infer=4, write=4), "preprocess"),
        (progress(read=9, preprocess=5, infer=3, write=3, filtered=2), "preprocess"),
        (progress(read=9, preprocess=9, infer=3, write=3, filtered=2), "infer"),
        (progress(infer=5, write=0), "write"),
        (progress(read=10, infer=5, write=3, works_at="infer"), "infer"),
        (progress(read=10, infer=5, write=3, works_at="preprocess"), "write"),
    ],
)
def test_the_stage_that_is_stuck(said: dict[str, Any] | None, stage: str) -> None:
    assert stuck_stage(said) == stage


def test_who_speaks_where_the_stuck_stage_has_no_task_yet(numbers: Path) -> None:
    """As where Prefect lets one task of a tag run at a time; else nobody would, for ever."""
    planned = make_plan(spec_of(numbers, timeouts={"no_progress_seconds": 60}))
    attempt = next_attempt(planned, left_to_do(planned, tried=False))
    look = Look({**progress(read=10, infer=0, write=0), "state": "running"})
    attempt.stall.lasts(look.progress)
    attempt.followed.add("read")
    for seconds, speaker in ((61.0, "infer"), (61.0 + TURN_SECONDS, "read")):
        attempt.stall.since = time.monotonic() - seconds
        assert attempt.stall.lasts(look.progress)
        assert speaks_of_stall(attempt, look) == speaker
    attempt.followed.add("infer")
    assert speaks_of_stall(attempt, look) == "infer"


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_where_one_task_runs_at_a_time_a_stall_ends_too(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.stages.TURN_SECONDS", 0.5)
    monkeypatch.setattr("tasks.clusters.inline.STOP_SECONDS", 0.0)
    slow = {"kind": "python", "class": "predictors:Double", "init": {"seconds": 5.0}}
    spec = spec_of(numbers, model=slow, timeouts={"no_progress_seconds": 1})
    runner: Any = ThreadPoolTaskRunner(max_workers=1)
    one_by_one = batch_inference.with_options(task_runner=runner)
    with pytest.raises(NoProgress, match=r"no row has moved for 1 s \(timeouts\.no_progress_sec"):
        one_by_one(spec)
