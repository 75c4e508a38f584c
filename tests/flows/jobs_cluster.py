"""A cluster that takes jobs, what it says of them, and runs of the command line to be killed."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

import psutil
import yaml

from tasks.clusters.ray_api import RayApi
from tasks.ray_job.gpu_queue import LIVE
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import spec_of
from tests.ray_cluster import RayCluster, ray_cluster

CODE = Path(__file__).parent / "jobs_code"
BLOCK = "the-tests-cluster"
LOOK_EVERY_SECONDS = 0.2
"""Each look may be a request, which takes the time of what is looked at."""
PATIENCE_SECONDS = 300.0
"""For what a busy machine may take long for; what the product promises is asserted apart."""


@dataclass(frozen=True)
class JobsCluster:
    """A cluster of two nodes, each with a GPU that does not exist, where a token is asked for."""

    ray: RayCluster
    token: str = field(repr=False)

    @property
    def api(self) -> RayApi:
        """The tests' own way in."""
        return RayApi(self.ray.dashboard, {"Authorization": f"Bearer {self.token}"})

    @property
    def by_address(self) -> dict[str, Any]:
        """The cluster in a spec; the token is in the environment."""
        return {"kind": "ray_jobs", "address": self.ray.dashboard, "python": sys.executable}

    @property
    def by_block(self) -> dict[str, Any]:
        """The cluster in a spec; the token is in a block on the Prefect server."""
        return {"kind": "ray_jobs", "block": BLOCK, "python": sys.executable}

    def save_block(self, name: str = BLOCK, address: str | None = None, **fields: Any) -> str:
        """Leave a block on the Prefect server; its name."""
        from pydantic import SecretStr

        from tasks.clusters.ray_cluster import RayCluster as Block

        token = SecretStr(self.token)
        block = Block(address=address or self.ray.dashboard, token=token, **fields)
        block.save(name, overwrite=True)
        return name

    def gpus_in_use(self) -> float:
        """GPUs of all nodes that are not free, as Ray's own status page counts them."""
        status = self.api.get("/api/cluster_status")["data"]["clusterStatus"]
        used, _ = status["loadMetricsReport"]["usage"].get("GPU", (0.0, 0.0))
        return float(used)

    def jobs(self, run_id: str = "") -> dict[str, str]:
        """Jobs by submission id with their status, of one run or of all."""
        listed = self.api.client.list_jobs()
        found = {job.submission_id: str(job.status.value) for job in listed if job.submission_id}
        return {each: status for each, status in sorted(found.items()) if run_id in each}

    def is_live(self, submission_id: str) -> bool:
        """Whether a job waits or runs."""
        return self.jobs()[submission_id] in LIVE


@contextmanager
def jobs_cluster() -> Iterator[JobsCluster]:
    """Start the cluster, and end it."""
    token = token_hex(24)
    with (
        # Short, as sockets lie in there.
        tempfile.TemporaryDirectory(prefix="rj", ignore_cleanup_errors=True) as folder,
        ray_cluster(Path(folder), nodes=2, num_gpus=1, token=token) as found,
    ):
        yield JobsCluster(found, token)


def jobs_spec(numbers: Path, cluster: dict[str, Any], **changes: Any) -> BatchInferenceSpec:
    """A small job on the cluster."""
    defaults = {
        "cluster": cluster,
        "model": {"kind": "python", "class": "speaking:Speaking"},
        "environment": {"working_dir": str(CODE)},
    }
    return spec_of(numbers, **{**defaults, **changes})


def halting(file: Path, batches: int = 0) -> dict[str, Any]:
    """A model that goes on after so many batches when a file is there, and fails without it."""
    init = {"file": str(file), "seconds": 2 * PATIENCE_SECONDS, "batches": batches}
    return {"kind": "python", "class": "speaking:Waits", "init": init}


@dataclass
class Orchestrator:
    """One call of `batch-inference run` in a process of its own."""

    spec: BatchInferenceSpec
    cluster: JobsCluster
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from prefect.settings import PREFECT_API_URL

        folder = Path(self.spec.sink.path).parent
        name = token_hex(4)
        file, self.errors = folder / f"{name}.yaml", folder / f"{name}.err"
        file.write_text(yaml.safe_dump(self.spec.model_dump(mode="json", by_alias=True)))
        command = str(Path(sys.executable).with_name("batch-inference"))
        self.started = time.monotonic()
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [command, "run", str(file), "--json"],
                stdout=subprocess.PIPE,
                stderr=errors,
                env={
                    **os.environ,
                    **self.cluster.ray.environment,
                    "PREFECT_API_URL": str(PREFECT_API_URL.value()),
                    **self.environment,
                },
            )

    def end(self, seconds: float = PATIENCE_SECONDS) -> tuple[int, dict[str, Any]]:
        """Wait for its end: exit code and report."""
        out, _ = self.process.communicate(timeout=seconds)
        lines = out.decode().splitlines()
        return self.process.returncode, json.loads(lines[-1]) if lines else {}

    def report(self) -> dict[str, Any]:
        """The report of a run that ends well."""
        code, report = self.end()
        assert code == 0, self.errors.read_text()
        return report

    def kill(self) -> None:
        """SIGKILL it, if it lives."""
        self.process.kill()
        self.process.wait()


@contextmanager
def orchestrator(
    spec: BatchInferenceSpec, cluster: JobsCluster, **environment: str
) -> Iterator[Orchestrator]:
    """Start a run in a process of its own, which does not outlive the block."""
    started = Orchestrator(spec, cluster, environment)
    try:
        yield started
    except TimeoutError as error:
        raise TimeoutError(f"{error}; the run has said: {started.errors.read_text()}") from error
    finally:
        started.kill()
        assert started.process.stdout
        started.process.stdout.close()


def run_folder(spec: BatchInferenceSpec) -> Path:
    """The folder of the only unfinished run; waits until it is planned."""
    runs = Path(f"{spec.sink.path}.state/runs")
    await_that(lambda: bool(list(runs.glob("*/run.json"))), "no run is planned")
    (found,) = runs.iterdir()
    return found


def await_rows(spec: BatchInferenceSpec, attempt: int = 1, rows: int = 50) -> Path:
    """Wait until an attempt has written so many rows; the run's folder."""
    run = run_folder(spec)
    progress = run / f"attempts/{attempt}/progress.json"

    def written() -> bool:
        body = read_json(progress)
        return bool(body and body["stages"]["write"]["rows"] >= rows)

    await_that(written, f"attempt {attempt} writes no {rows} rows")
    return run


def read_json(file: Path) -> Any:
    """What a file holds; None where there is none."""
    return json.loads(file.read_text()) if file.exists() else None


def await_that(
    holds: Callable[[], bool], otherwise: str, seconds: float = PATIENCE_SECONDS
) -> float:
    """Wait until something holds; seconds that it took.

    Raises:
        TimeoutError: it does not.
    """
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > seconds:
            raise TimeoutError(otherwise)
        time.sleep(LOOK_EVERY_SECONDS)
    return time.monotonic() - begun


def driver_of(submission_id: str) -> psutil.Process:
    """The driver's process of a job, on the cluster's head."""
    run_id, attempt = submission_id.rsplit("-", 1)
    job_file = f"{run_id}/attempts/{attempt}/job.json"
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if words and words[0] == sys.executable and any(job_file in word for word in words):
            return process
    raise LookupError(f"no driver of {submission_id} runs")
