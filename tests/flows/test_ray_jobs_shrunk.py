"""A cluster loses nodes in mid-run until nothing but the model has a core."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flows.small_ray import end
from tests.flows.conftest import ONE_WORKER, published
from tests.flows.jobs_cluster import (
    JobsCluster,
    await_rows,
    await_that,
    jobs_spec,
    orchestrator,
    read_json,
)
from tests.ray_cluster import STORE_BYTES, RayCluster, ray_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.ray, pytest.mark.prefect, pytest.mark.chaos]

GIB = 1 << 30


@pytest.mark.usefixtures("prefect_server")
def test_a_job_says_that_it_waits_for_cores_and_goes_on_when_a_node_comes(numbers: Path) -> None:
    with (
        # Short, as sockets lie in there.
        tempfile.TemporaryDirectory(prefix="rs", ignore_cleanup_errors=True) as folder,
        # The replica has a place on the head only, and takes its one core.
        ray_cluster(Path(folder), nodes=1, memory=GIB) as found,
    ):
        cluster, shrunk = JobsCluster(found, token=""), numbers.parent / "shrunk"
        step = {"kind": "python", "function": "speaking:slowly", "init": {"until": str(shrunk)}}
        spec = jobs_spec(
            numbers,
            cluster.by_address,
            steps=[step],
            stages={"read": {"rows_per_batch": 20, **ONE_WORKER}, "write": ONE_WORKER},
            resources={"memory_gb": 2, "max_replicas": 1},
        )
        with orchestrator(spec, cluster) as running:
            progress = await_rows(spec) / "attempts/1/progress.json"
            os.kill(found.raylets[0], signal.SIGKILL)
            shrunk.touch()
            seconds = await_that(lambda: bool(read_json(progress)["waits_for"]), "it says nothing")
            said = read_json(progress)
            print(f"\nafter {seconds:.1f} s the job says that it waits for {said['waits_for']}")
            assert said["waits_for"] == (
                "cores beside the replicas: 2 CPU cores must be free at the same time, but the "
                "cluster has 1"
            )
            with another_node(found):
                report = running.report()
    assert (report["attempts"], report["redone_rows"]) == (1, 0)
    assert [row["doubled"] for row in published(spec)] == [2.0 * each for each in range(1000)]


@contextmanager
def another_node(cluster: RayCluster, *options: str, **environment: str) -> Iterator[None]:
    """A node of two cores, as an operator would add it."""
    ray = str(Path(sys.executable).with_name("ray"))
    command = [ray, "start", "--block", f"--address={cluster.address}", "--num-cpus=2"]
    command += [f"--object-store-memory={STORE_BYTES}", *options]
    own, nowhere = {**os.environ, **cluster.environment, **environment}, subprocess.DEVNULL
    with subprocess.Popen(command, env=own, stdout=nowhere, stderr=nowhere) as process:
        try:
            yield
        finally:
            end(process)
