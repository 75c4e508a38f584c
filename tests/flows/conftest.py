"""A Ray cluster for the whole session, and a small job to run on it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.spec import BatchInferenceSpec
from tasks.spec_file import parse_spec
from tests.ray_cluster import NO_SPARE_WORKERS

HEAD = """
import ray, sys
sizes = {"num_cpus": 4, "object_store_memory": 300 << 20}
# Without an address Ray would join whatever another test has started on this machine.
ray.init(address="local", include_dashboard=False, logging_level="ERROR", **sizes)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""
CODE = Path(__file__).parent / "user_code"
ONE_WORKER = {"max_workers": 1}


@pytest.fixture(scope="session")
def ray_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Ray head that lasts for the session; its home is a folder of ours."""
    os.environ["HOME"] = str(tmp_path_factory.mktemp("home"))
    # A head that listens on loopback for one session; drivers inherit this.
    os.environ["RAY_AUTH_MODE"] = "disabled"
    head = subprocess.Popen(
        [sys.executable, "-c", HEAD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **NO_SPARE_WORKERS},
    )
    assert head.stdout
    address = head.stdout.readline().strip()
    assert address, "Ray did not start"
    yield address
    tree = [*psutil.Process(head.pid).children(recursive=True), psutil.Process(head.pid)]
    for process in tree:
        if process.is_running():
            process.kill()
    head.communicate()


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Ten Parquet files of 100 rows: id, and x = id."""
    folder = tmp_path / "numbers"
    folder.mkdir()
    for number in range(10):
        ids = list(range(number * 100, number * 100 + 100))
        table = pa.table({"id": ids, "x": [float(each) for each in ids]})
        pq.write_table(table, folder / f"{number}.parquet")
    return folder


def spec_of(folder: Path, **changes: Any) -> BatchInferenceSpec:
    """A small job: parquet, a class that doubles x, parquet.

    Each stage has one worker: starting processes takes most of a small job's time.
    """
    raw: dict[str, Any] = {
        "name": "doubling",
        "source": {"kind": "parquet", "path": str(folder)},
        "model": {"kind": "python", "class": "predictors:Double"},
        "sink": {"kind": "parquet", "path": str(folder.parent / "out")},
        "cluster": {"kind": "inline"},
        "environment": {"working_dir": str(CODE)},
        "stages": {"read": {"rows_per_batch": 50, **ONE_WORKER}, "write": ONE_WORKER},
        "resources": {"max_replicas": 1},
        "retries": {"max_attempts": 1},
    }
    return parse_spec({**raw, **changes})


def published(spec: BatchInferenceSpec) -> list[dict[str, Any]]:
    """All published rows, by id."""
    files = sorted(Path(spec.sink.path).rglob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted(rows, key=lambda row: row["id"])


@pytest.fixture(scope="session")
def jobs_cluster(prefect_server: None) -> Iterator[Any]:
    """A cluster elsewhere, as far as a machine can be elsewhere from itself, and its block."""
    from tests.flows.jobs_cluster import jobs_cluster

    with jobs_cluster() as started:
        started.save_block()
        yield started
