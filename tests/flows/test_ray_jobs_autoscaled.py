"""A cluster without a GPU whose autoscaler can add one: what is asked for comes, and is used."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.batch_inference import batch_inference
from tasks.preflight import check_cluster
from tests.flows.conftest import published
from tests.flows.jobs_cluster import JobsCluster, jobs_spec
from tests.ray_cluster import ray_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.ray, pytest.mark.prefect]

NODE: dict[str, float] = {"CPU": 2, "GPU": 1, "object_store_memory": 200 << 20}


@pytest.fixture
def autoscaled(prefect_server: None) -> Iterator[JobsCluster]:
    """A head alone; one node with a GPU is made when somebody asks for it."""
    with (
        # Short, as sockets lie in there.
        tempfile.TemporaryDirectory(prefix="ra", ignore_cleanup_errors=True) as folder,
        ray_cluster(Path(folder), nodes=0, scales_to=NODE) as found,
    ):
        yield JobsCluster(found, token="")


def test_a_node_that_no_one_has_yet_is_waited_for(numbers: Path, autoscaled: JobsCluster) -> None:
    def spec_with(num_gpus: Any) -> Any:
        cluster = {**autoscaled.by_address, "wait_for_nodes_seconds": 60}
        resources = {"num_gpus": num_gpus, "max_replicas": 1}
        return jobs_spec(numbers, cluster, resources=resources)

    assert "1 node, 0 GPUs; num_gpus: auto takes none" in check_cluster(spec_with("auto"))
    spec = spec_with(1)
    report = batch_inference(spec)
    assert report["attempts"] == 1
    assert [row["doubled"] for row in published(spec)] == [2.0 * each for each in range(1000)]
    assert [node["resources_total"].get("GPU") for node in autoscaled.api.nodes()].count(1.0) == 1
    assert check_cluster(spec_with("auto")).endswith("2 nodes, 1 GPU")
