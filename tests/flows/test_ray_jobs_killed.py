"""Runs on a Ray cluster elsewhere that are stopped, killed, left alone and found again."""

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tasks.clusters.ray_jobs import RayJobs
from tasks.plan import make_plan
from tasks.run import left_to_do, new_job
from tasks.spec import BatchInferenceSpec
from tasks.spec_parts import Timeouts
from tests.flows.conftest import published
from tests.flows.jobs_cluster import (
    JobsCluster,
    await_rows,
    await_that,
    driver_of,
    halting,
    jobs_spec,
    orchestrator,
    read_json,
)

pytestmark = [pytest.mark.cluster, pytest.mark.ray, pytest.mark.prefect, pytest.mark.chaos]

ORPHAN_SECONDS = 20.0
"""Whoever follows a job leaves a sign of that twice as often, and a busy machine may be late."""
BATCHES = 2
"""The model's, of an attempt that is to be ended: it can end in no other way."""


def assert_published_once(spec: BatchInferenceSpec) -> None:
    """Every row, and no row twice."""
    rows = published(spec)
    assert [row["id"] for row in rows] == list(range(1000))
    assert [row["doubled"] for row in rows] == [2.0 * each for each in range(1000)]


def test_whatever_ends_a_job_the_next_one_goes_on(numbers: Path, jobs_cluster: JobsCluster) -> None:
    """One run: cancelled, then left alone, then without its driver."""
    go = numbers.parent / "go"
    spec = jobs_spec(numbers, jobs_cluster.by_address, model=halting(go, BATCHES))
    cancel(spec, jobs_cluster, attempt=1)
    leave_alone(spec, jobs_cluster, attempt=2)
    report = lose_driver(spec, jobs_cluster, go, attempt=3)
    assert report["attempts"] == 2
    assert report["resumed_rows"] >= 100
    assert_published_once(spec)
    jobs = list(jobs_cluster.jobs(report["run_id"]).values())
    assert jobs == ["STOPPED", "FAILED", "FAILED", "SUCCEEDED"]


def cancel(spec: BatchInferenceSpec, cluster: JobsCluster, attempt: int) -> None:
    """Start a run and end it when rows are written: its job must stop.

    SIGTERM, which the command line turns into the SIGINT of Ctrl-C, so that this shows both.
    """
    with orchestrator(spec, cluster) as running:
        run = await_rows(spec, attempt)
        running.process.send_signal(signal.SIGTERM)
        stopped = await_that(
            lambda: not cluster.is_live(f"{run.name}-{attempt}"), "the job does not stop"
        )
        code, _ = running.end()
    print(f"\nthe job has stopped after {stopped:.1f} s, exit code {code}")
    assert code != 0


def leave_alone(spec: BatchInferenceSpec, cluster: JobsCluster, attempt: int) -> None:
    """Start a run and SIGKILL it when rows are written: its job must end by itself."""
    short = spec.model_copy(update={"timeouts": Timeouts(orphan_seconds=ORPHAN_SECONDS)})
    with orchestrator(short, cluster) as running:
        run = await_rows(spec, attempt)
        assert cluster.is_live(f"{run.name}-{attempt}"), "it is followed, and no orphan"
        running.kill()
    ended = await_that(lambda: not cluster.is_live(f"{run.name}-{attempt}"), "the job goes on")
    print(f"\nleft alone, the job has ended after {ended:.1f} s")
    result = read_json(run / f"attempts/{attempt}/result.json")
    assert result["error"]["class"] == "Orphaned"


def lose_driver(
    spec: BatchInferenceSpec, cluster: JobsCluster, go: Path, attempt: int
) -> dict[str, Any]:
    """Run to the end, with the driver killed when rows are written: another attempt is made."""
    patient = spec.model_copy(
        update={"retries": spec.retries.model_copy(update=dict(max_attempts=3))}
    )
    with orchestrator(patient, cluster) as running:
        run = await_rows(spec, attempt)
        driver_of(f"{run.name}-{attempt}").kill()
        go.touch()
        return running.report()


def test_of_two_who_submit_an_attempt_both_get_the_same_job(
    numbers: Path, jobs_cluster: JobsCluster
) -> None:
    planned = make_plan(jobs_spec(numbers, jobs_cluster.by_block))
    job = new_job(planned, left_to_do(planned, tried=False), attempt=1)
    together = threading.Barrier(2)

    def start(_: int) -> Any:
        cluster = RayJobs(jobs_cluster.api, jobs_cluster.by_address["python"])
        together.wait()
        return cluster.start(job)

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(start, range(2))
    assert one.id == other.id == f"{job.run_id}-1"
    assert list(jobs_cluster.jobs(job.run_id)) == [one.id]
    begun = time.monotonic()
    one.stop()
    print(f"\na job that starts has stopped after {time.monotonic() - begun:.1f} s")
    assert not other.is_alive()
