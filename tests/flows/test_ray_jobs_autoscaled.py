"""A cluster without a GPU whose autoscaler can add one: what is asked for comes, and is used.

What its nodes' metrics say of a run, as Prometheus would read them, is looked at in passing.
"""

import json
import os
import re
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.batch_inference import batch_inference
from tasks.planning.preflight import check_cluster
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import CODE, published
from tests.flows.jobs_cluster import JobsCluster, jobs_spec, read_json
from tests.ray_cluster import RayCluster, ray_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.ray, pytest.mark.prefect]

NODE: dict[str, float] = {"CPU": 2, "GPU": 1, "object_store_memory": 200 << 20}
OFTEN = {"RAY_metrics_report_interval_ms": "1000"}
"""Every process hands its metrics to its node once a second, in place of ten."""
SCRAPE_SECONDS = 120.0
SAMPLE = re.compile(r"ray_prefect_ray_data_(\w+)_total\{(.*)\} (\S+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')
FIGURE_OF = {"rows": "rows", "rejected": "set_aside_rows", "seconds": "busy_seconds"}
BAD = 7


@pytest.fixture
def autoscaled(prefect_server: None) -> Iterator[JobsCluster]:
    """A head alone; one node with a GPU is made when somebody asks for it."""
    environment = {**os.environ, **OFTEN}
    with (
        # Short, as sockets lie in there.
        tempfile.TemporaryDirectory(prefix="ra", ignore_cleanup_errors=True) as folder,
        ray_cluster(Path(folder), nodes=0, scales_to=NODE, environment=environment) as found,
    ):
        yield JobsCluster(found, token="")


def test_a_node_that_no_one_has_yet_is_waited_for(numbers: Path, autoscaled: JobsCluster) -> None:
    def spec_with(num_gpus: Any) -> Any:
        cluster = {**autoscaled.by_address, "wait_for_nodes_seconds": 300}
        return jobs_spec(
            numbers,
            cluster,
            model={"kind": "python", "class": "predictors:Double", "init": {"bad": float(BAD)}},
            environment={"working_dir": str(CODE)},
            resources={"num_gpus": num_gpus, "max_replicas": 1},
            errors={"max_rejected_fraction": 0.5},
        )

    assert "1 node, 0 GPUs; num_gpus: auto uses none" in check_cluster(spec_with("auto"))
    spec = spec_with(1)
    report = batch_inference(spec)
    assert report["attempts"] == 1
    good = [each for each in range(1000) if each != BAD]
    assert [row["doubled"] for row in published(spec)] == [2.0 * each for each in good]
    assert_in_metrics(autoscaled.ray, spec, report["run_id"])
    assert [node["resources_total"].get("GPU") for node in autoscaled.api.nodes()].count(1.0) == 1
    assert check_cluster(spec_with("auto")).endswith("2 nodes, 1 GPU")


def assert_in_metrics(cluster: RayCluster, spec: BatchInferenceSpec, run_id: str) -> None:
    """What the stages of a run's first attempt did is what the cluster's metrics come to say."""
    progress = read_json(Path(f"{spec.sink.path}.state/runs/{run_id}/attempts/1/progress.json"))
    wanted = {
        (metric, name): count[key]
        for name, count in progress["stages"].items()
        for key, metric in FIGURE_OF.items()
        if count[key]
    }
    assert wanted["rows", "infer"] == 1000
    assert wanted["set_aside_rows", "infer"] == 1
    assert wanted["rows", "write"] == 999
    until = time.monotonic() + SCRAPE_SECONDS
    while (found := scraped(cluster, run_id)) != wanted and time.monotonic() < until:
        time.sleep(0.2)
    assert found == pytest.approx(wanted)


def scraped(cluster: RayCluster, run_id: str) -> dict[tuple[str, str], float]:
    """A run's samples from every node's metrics endpoint, by metric and stage."""
    found: dict[tuple[str, str], float] = {}
    for group in json.loads(body(f"{cluster.dashboard}/api/prometheus/sd") or "[]"):
        for target in group["targets"]:
            for metric, labels, value in SAMPLE.findall(body(f"http://{target}/metrics")):
                tags: dict[str, Any] = dict(LABEL.findall(labels))
                assert (tags["run_id"], tags["run_name"]) == (run_id, "doubling")
                found[metric, tags["stage"]] = float(value)
    return found


def body(url: str) -> str:
    """What lies at a URL; nothing where nobody listens yet."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            text: str = answer.read().decode()
    except OSError:
        return ""
    return text
