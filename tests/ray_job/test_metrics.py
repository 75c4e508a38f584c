"""What the stages did, as Prometheus would read it from a real cluster's nodes."""

import re
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.clusters.small_job import ROWS, begin, follow, small_spec
from tests.flows.jobs_cluster import JobsCluster

pytestmark = [pytest.mark.cluster, pytest.mark.ray, pytest.mark.prefect]
SCRAPE_SECONDS = 60.0
SAMPLE = re.compile(r"ray_prefect_ray_data_(\w+)_total\{(.*)\} (\S+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')


def test_what_the_stages_did_is_in_the_metrics(jobs_cluster: JobsCluster, tmp_path: Path) -> None:
    planned, attempt = begin(small_spec(tmp_path, jobs_cluster.by_block, bad=7.0))
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
    run_id = planned.run.run_id
    while (found := scraped(jobs_cluster, run_id)) != wanted and time.monotonic() < until:
        time.sleep(0.2)
    assert found == pytest.approx(wanted)


def scraped(cluster: JobsCluster, run_id: str) -> dict[tuple[str, str], float]:
    """A run's samples from every node's metrics endpoint, by metric and stage."""
    found: dict[tuple[str, str], float] = {}
    for group in cluster.api.get("/api/prometheus/sd"):
        for target in group["targets"]:
            for metric, labels, value in SAMPLE.findall(body(f"http://{target}/metrics")):
                tags: dict[str, Any] = dict(LABEL.findall(labels))
                if tags["run_id"] == run_id:
                    assert tags["run_name"] == "doubling"
                    found[metric, tags["stage"]] = float(value)
    return found


def body(url: str) -> str:
    """What lies at a URL."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text
