"""A submission of which something is lost on its way: one job runs, and the run follows it."""

from pathlib import Path

import pytest

from flows.batch_inference import batch_inference
from tests.flows.conftest import published
from tests.flows.jobs_cluster import JobsCluster, jobs_spec
from tests.flows.jobs_front import jobs_front

pytestmark = [pytest.mark.cluster, pytest.mark.ray, pytest.mark.prefect]


def test_of_submissions_that_are_lost_one_job_comes(
    numbers: Path, jobs_cluster: JobsCluster
) -> None:
    """The first never arrives, of the second the reply is lost: no attempt is spent on it."""
    with jobs_front(jobs_cluster.ray.dashboard, lose=["request", "reply"]) as front:
        cluster = {**jobs_cluster.by_block, "block": jobs_cluster.save_block("lossy", front.url)}
        spec = jobs_spec(numbers, cluster, retries={"max_attempts": 1})
        report = batch_inference(spec)
        assert front.submissions == 2
    assert jobs_cluster.jobs(report["run_id"]) == {f"{report['run_id']}-1": "SUCCEEDED"}
    assert report["attempts"] == 1
    assert [row["doubled"] for row in published(spec)] == [2.0 * each for each in range(1000)]
