"""What the stages did, as Prometheus would read it from a real cluster's nodes."""

import json
import os
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clusters.small_job import ROWS, begin, follow, small_spec
from tests.ray_cluster import RayCluster, ray_cluster

pytestmark = pytest.mark.cluster
SCRAPE_SECONDS = 120.0
OFTEN = {"RAY_metrics_report_interval_ms": "1000"}
"""Every process hands its metrics to its node once a second, in place of ten."""
SAMPLE = re.compile(r"ray_prefect_ray_data_(\w+)_total\{(.*)\} (\S+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')


@pytest.fixture
def cluster() -> Iterator[RayCluster]:
    # Ray's sockets need a short path.
    with (
        tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder,
        ray_cluster(Path(folder), nodes=1, environment={**os.environ, **OFTEN}) as found,
        pytest.MonkeyPatch.context() as environment,
    ):
        for name, value in found.environment.items():
            environment.setenv(name, value)
        yield found


def test_what_the_stages_did_is_in_the_metrics(cluster: RayCluster, tmp_path: Path) -> None:
    at = {"kind": "ray_jobs", "address": cluster.dashboard, "python": sys.executable}
    planned, attempt = begin(small_spec(tmp_path, at, bad=7.0))
    stages = follow(attempt)
    wanted = {
        (metric, name): count[key]
        for name, count in stages.items()
        for metric, key in (
            ("rows", "rows"),
            ("set_aside_rows", "rejected"),
            ("busy_seconds", "seconds"),
        )
        if count[key]
    }
    assert wanted["rows", "infer"] == ROWS
    assert wanted["set_aside_rows", "infer"] == 1
    assert wanted["rows", "write"] == ROWS - 1
    until = time.monotonic() + SCRAPE_SECONDS
    while (found := scraped(cluster, planned.run.run_id)) != wanted and time.monotonic() < until:
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
