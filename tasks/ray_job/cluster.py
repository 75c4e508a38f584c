"""The job on Ray: start or join it, count what the stages do, watch the run."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import ray
from ray.data import DataContext, ExecutionOptions
from ray.data._internal.execution.execution_callback import ExecutionCallback

from tasks.ray_job.backpressure import bound_unrecorded
from tasks.ray_job.counts import Counts, Report
from tasks.ray_job.datasink import batches_per_write
from tasks.ray_job.job import Job
from tasks.ray_job.pipeline import run_pipeline
from tasks.ray_job.progress import Progress
from tasks.spec import LocalCluster

MAX_READ_TASKS = 10_000
BYTES_PER_READ_TASK = 64 << 20
READ_TASKS_PER_CPU = 4


@dataclass(frozen=True)
class ActorReporter:
    """Sends a stage's reports to the counting actor, without waiting."""

    counts: Any

    def __call__(self, report: Report) -> None:
        """Send one report."""
        self.counts.add.remote(report)


def run_on_ray(job: Job) -> None:
    """Run the job on this machine's Ray or on the one at the given address.

    Raises:
        BatchInferenceError: the job cannot go on.
        ray.exceptions.RayError: Ray itself failed.
    """
    with connected(job):
        configure(job)
        counts = ray.remote(Counts).options(num_cpus=0, max_restarts=3).remote()
        resources = ray.cluster_resources()
        shares = list(cut_shares(job, int(resources.get("CPU", 1))))
        progress = Progress(job, lambda: ray.get(counts.snapshot.remote()), len(shares))
        Watch.progress = progress
        run_pipeline(job, shares, gpus_of(job, resources), ActorReporter(counts))
        progress.finish()


@contextmanager
def connected(job: Job) -> Iterator[None]:
    """Ray, started here or joined; left at the end."""
    cluster = job.spec.cluster
    assert isinstance(cluster, LocalCluster)
    options: dict[str, Any] = {"log_to_driver": True, "logging_level": "WARNING"}
    if cluster.address:
        options["address"] = cluster.address
    else:
        # Without it Ray would join whatever cluster was last started on this machine.
        options["address"] = "local"
        options["include_dashboard"] = False
        if cluster.object_store_gb:
            options["object_store_memory"] = int(cluster.object_store_gb * (1 << 30))
    ray.init(**options)
    try:
        yield
    finally:
        ray.shutdown()


def configure(job: Job) -> None:
    """Ray Data's settings for our batches."""
    context = DataContext.get_current()
    # Every batch becomes a block of its own: Ray cuts a block that exceeds this at its rows, and
    # one row is one batch.
    context.target_max_block_size = 1
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.execution_options = ExecutionOptions(preserve_order=False)
    context.custom_execution_callback_classes = [Watch]
    context.execution_no_progress_timeout_s = job.spec.timeouts.no_progress_seconds
    bound_unrecorded(context, batches_per_write(job))


class Watch(ExecutionCallback):
    """Ray's executor calls this in its loop; what it raises ends the job."""

    progress: ClassVar[Progress | None] = None

    def on_execution_step(self, executor: object) -> None:
        """Let the progress writer have its turn."""
        if self.progress:
            self.progress.step()


def cut_shares(job: Job, num_cpus: int) -> Iterator[tuple[int, int]]:
    """Shares of the shards for the read tasks: enough to keep every core busy, at most 10,000."""
    by_size = math.ceil(job.todo_bytes / BYTES_PER_READ_TASK)
    wanted = max(by_size, num_cpus * READ_TASKS_PER_CPU)
    count = max(1, min(wanted, job.num_shards, MAX_READ_TASKS))
    for number in range(count):
        yield number * job.num_shards // count, (number + 1) * job.num_shards // count


def gpus_of(job: Job, resources: dict[str, float]) -> float:
    """GPUs of one replica: as asked for, or one where the cluster has any."""
    asked = job.spec.resources.num_gpus
    return asked if asked != "auto" else float(min(1.0, resources.get("GPU", 0.0)))
