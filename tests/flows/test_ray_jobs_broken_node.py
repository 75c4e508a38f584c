"""One node of a cluster is broken: no model can be loaded there."""

import time
from pathlib import Path

import pytest

from tests.flows.conftest import published
from tests.flows.jobs_cluster import JobsCluster, await_that, jobs_spec, orchestrator
from tests.flows.test_ray_jobs_shrunk import another_node

pytestmark = [pytest.mark.cluster, pytest.mark.ray, pytest.mark.prefect, pytest.mark.chaos]


def test_the_next_attempt_leaves_it_out(numbers: Path, jobs_cluster: JobsCluster) -> None:
    init = {"folder": str(numbers.parent)}
    spec = jobs_spec(
        numbers,
        jobs_cluster.by_address,
        model={"kind": "python", "class": "speaking:LoadsOnSoundNodes", "init": init},
        resources={"num_gpus": 1, "num_cpus": 0.5},
        retries={"max_attempts": 2},
    )
    before = len(jobs_cluster.api.nodes())
    with another_node(jobs_cluster.ray, "--num-gpus=1", BROKEN_NODE="1"):
        await_that(lambda: len(jobs_cluster.api.nodes()) > before, "no node has come")
        begun = time.monotonic()
        with orchestrator(spec, jobs_cluster) as running:
            report = running.report()
    first, second = (jobs_cluster.api.log(f"{report['run_id']}-{number}") for number in (1, 2))
    print(f"\none broken node of four: {time.monotonic() - begun:.1f} s, 2 attempts")
    assert report["attempts"] == 2
    assert [row["doubled"] for row in published(spec)] == [2.0 * each for each in range(1000)]
    assert "no driver for this device" in first
    assert "left out, since a stage could not be set up there before" in second
    assert len([*numbers.parent.glob("tried-*")]) == 1
