"""Whole small jobs: Kubernetes is a stand-in, the Ray that it seems to have made is a real one."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flows.batch_inference import batch_inference
from tasks.errors import InvalidSpec
from tasks.ray_job.job import Job
from tasks.running_jobs import live_jobs, stop_jobs
from tasks.spec import BatchInferenceSpec
from tests.clusters.kubernetes_api import Kubernetes
from tests.clusters.small_job import ROWS, small_spec
from tests.flows.conftest import published
from tests.flows.jobs_cluster import PATIENCE_SECONDS, JobsCluster

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.prefect,
    pytest.mark.usefixtures("prefect_server"),
]
STEP_SECONDS = 60.0
MODEL_SECONDS = 30.0
"""Of each of four batches: a job that is not stopped outlasts a step."""


@pytest.fixture
def fields(kube: Kubernetes, jobs_cluster: JobsCluster, fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of `cluster` that lead to the stand-in, and from there to the real Ray.

    Its token is nowhere but in the secret.
    """
    kube.head_token, kube.ready_after = jobs_cluster.token, 0.5
    return {**fields, "address": jobs_cluster.ray.dashboard, "python": sys.executable}


def test_a_run_that_fails_deletes_its_cluster(
    kube: Kubernetes, fields: dict[str, Any], tmp_path: Path
) -> None:
    spec = small_spec(tmp_path, fields)
    # Nodes of the manifest have as many; those of the Ray that the stand-in leads to have fewer.
    resources = spec.resources.model_copy(update={"num_cpus": 8.0})
    cluster = spec.cluster.model_copy(update={"wait_for_nodes_seconds": 0})
    with pytest.raises(InvalidSpec, match=r"resources\.num_cpus: 8"):
        batch_inference(spec.model_copy(update={"resources": resources, "cluster": cluster}))
    assert kube.count_made() == 1
    assert not left_over(kube)


def test_whoever_cancels_needs_only_the_spec(
    kube: Kubernetes, fields: dict[str, Any], tmp_path: Path
) -> None:
    spec = small_spec(tmp_path, fields, seconds=MODEL_SECONDS)
    with orchestrator(spec, tmp_path) as process:
        job = working(spec)
        began = time.monotonic()
        assert stop_jobs(spec) == [job]
        assert time.monotonic() - began < STEP_SECONDS
        assert not left_over(kube)
        assert not live_jobs(spec)
        assert process.wait(STEP_SECONDS) == 1
    assert not left_over(kube)
    assert kube.count_made() == 1


def test_the_run_after_a_killed_one_finds_its_cluster_and_its_job(
    kube: Kubernetes, fields: dict[str, Any], tmp_path: Path
) -> None:
    go = tmp_path / "go"
    spec = small_spec(tmp_path, fields, file=str(go))  # which it waits for after two batches
    with orchestrator(spec, tmp_path) as process:
        job = working(spec)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(STEP_SECONDS)
    assert len(left_over(kube)) == 1
    go.touch()
    report = batch_inference(spec)
    assert (report["rows"]["written"], report["attempts"]) == (ROWS, 1)
    assert [row["doubled"] for row in published(spec)] == [2.0 * each for each in range(ROWS)]
    jobs = [stat.path for stat in job.storage.list(job.run.path) if stat.path.endswith("job.json")]
    assert jobs == [f"{job.folder}/job.json"]
    assert kube.count("PATCH") > 0
    assert (kube.count_made(), left_over(kube)) == (1, [])


@contextmanager
def orchestrator(spec: BatchInferenceSpec, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs a spec."""
    path = folder / "spec.json"
    path.write_text(spec.model_dump_json(by_alias=True))
    process = subprocess.Popen([sys.executable, "-m", "tests.clusters.small_job", str(path)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def working(spec: BatchInferenceSpec) -> Job:
    """The job that another process has started, as soon as it runs."""
    return await_value(lambda: next((job for job, _ in live_jobs(spec)), None))


def left_over(kube: Kubernetes) -> list[str]:
    """Clusters that are there and not being deleted."""
    found = kube.clusters.values()
    return [c["metadata"]["name"] for c in found if "deletionTimestamp" not in c["metadata"]]


def await_value(ask: Callable[[], Job | None]) -> Job:
    """What a question is answered with in the end."""
    until = time.monotonic() + PATIENCE_SECONDS
    while (found := ask()) is None:
        assert time.monotonic() < until
        time.sleep(0.2)
    return found
