"""The job on Ray: wait for turn and room, cut the input into shares, run the pipeline, watch it."""

import warnings
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.data import DataContext, ExecutionOptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tasks.machine import cores
from tasks.ray_job.backpressure import add_policies
from tasks.ray_job.bare_data import bare_data
from tasks.ray_job.batch_sizes import in_equal_shares, likely_rows_left
from tasks.ray_job.cluster_capacity import Node, gpus_of_replica
from tasks.ray_job.counts import Counts, Report, Snapshot, is_begun_anew, together
from tasks.ray_job.excluded_nodes import elsewhere, leaving_out, raise_of_node
from tasks.ray_job.executor_polling import PollInterval
from tasks.ray_job.follower_heartbeat import Followed
from tasks.ray_job.gpu_queue import await_turn, within_limit
from tasks.ray_job.head_notes import forget_all
from tasks.ray_job.job import Job
from tasks.ray_job.local_autoscaling import LocalAutoscaler, leave_pool_alone
from tasks.ray_job.metrics import CountingActor
from tasks.ray_job.nodes import await_room, check_nodes, nodes_lost, nodes_now
from tasks.ray_job.occupancy import Occupancy
from tasks.ray_job.own_machine import (
    fitted,
    is_own_machine,
    preprocesses_in_replicas,
    replicas_at_first,
    replicas_have_the_cores,
)
from tasks.ray_job.pipeline import run_pipeline
from tasks.ray_job.poison_rows import DEATHS, over_rows_in_hand
from tasks.ray_job.progress import JobStatus, Progress
from tasks.ray_job.shares import cut_shares
from tasks.ray_job.stage_functions import has_preprocessing
from tasks.ray_job.watch import Watch
from tasks.ray_job.writing import batches_per_write

SNAPSHOT_SECONDS = 10.0


@dataclass(frozen=True)
class ActorReporter:
    """Sends a stage's reports to the counting actor, without waiting."""

    counts: Any

    def __call__(self, report: Report) -> None:
        """Send one report."""
        self.counts.add.remote(report)


def run_on_ray(job: Job) -> None:
    """Run the job on the Ray that this process is connected with.

    Raises:
        BatchInferenceError: the job cannot go on.
        ray.exceptions.RayError: Ray itself failed.
    """
    configure()
    followed = Followed(job)
    queued = Queued(job, followed)
    await_turn(job, queued)
    await_room(job, queued)
    job = leaving_out(job)
    # Its process starts while the nodes are checked.
    counts = None if job.only_check else counting_actor(job)
    if not is_own_machine(job.spec):
        check_nodes(job, queued)
    if counts is None:
        return
    resources = ray.cluster_resources()
    rows, nodes = likely_rows_left(job), nodes_now()
    gpus = gpus_of_replica(job.spec.resources, nodes)
    job = within_limit(job, gpus)
    if is_own_machine(job.spec):
        job = fitted(job, gpus, resources.get("GPU", 0.0))
    job = in_equal_shares(job, rows, preparers_of(job, gpus, resources.get("CPU", 1.0)))
    shares = list(cut_shares(job, int(resources.get("CPU", 1)), rows))
    progress = Progress(job, LastSnapshot(counts), len(shares), rows)
    tell_machines(job, progress.occupancy, nodes, gpus)
    Watch.progress, Watch.followed, Watch.pace = progress, followed, PollInterval()
    Watch.num_gpus, Watch.lost_before = gpus, nodes_lost()
    DataContext.get_current().execution_options.label_selector = elsewhere(job)
    replicas = plan_workers(job, gpus, rows)
    try:
        with bare_data() if is_own_machine(job.spec) else nullcontext():
            run_pipeline(job, shares, gpus, ActorReporter(counts), replicas)
    except DEATHS as error:
        raise over_rows_in_hand(job, error) from error
    except Exception as error:
        if progress.predicted and len(nodes) > 1:
            raise_of_node(error)
        raise
    finally:
        with suppress(Exception):  # what ended the job is to be heard
            forget_all(job)
    progress.finish()


def preparers_of(job: Job, num_gpus: float, num_cpus: float) -> int:
    """Workers of preprocessing at once; 0 where there are none, or replicas do it.

    Args:
        job: what to do.
        num_gpus: GPUs of one replica.
        num_cpus: cores of the cluster.
    """
    if not has_preprocessing(job.spec, job.stages):
        return 0
    if preprocesses_in_replicas(job.spec, num_gpus, job.stages):
        return 0
    options = job.spec.stages.preprocess
    there = max(1, int(num_cpus / options.num_cpus))
    return min(there, options.max_workers or there)


def tell_machines(job: Job, occupancy: Occupancy, nodes: list[Node], num_gpus: float) -> None:
    """Tell what the job runs on, for the verdict on what bounds it.

    Args:
        job: what to do.
        occupancy: of its workers.
        nodes: what each has.
        num_gpus: GPUs of one replica.
    """
    occupancy.cores = ray.cluster_resources().get("CPU", 0.0)
    occupancy.nodes = nodes
    occupancy.is_one_machine = len(nodes) == 1
    occupancy.rows_per_batch = job.spec.rows_per_batch
    if is_own_machine(job.spec):
        occupancy.cores = float(cores())  # more are handed out than there are
        occupancy.in_replicas = preprocesses_in_replicas(job.spec, num_gpus, job.stages)


def plan_workers(job: Job, num_gpus: float, rows: int | None) -> int | None:
    """Tell Ray how many workers stages begin with, and who adds others; the replicas among them.

    Args:
        job: what to do.
        num_gpus: GPUs of one replica.
        rows: left to do, as far as that can be known.
    """
    context, per_write = DataContext.get_current(), batches_per_write(job)
    has_growing = replicas_have_the_cores(job.spec, num_gpus)
    Watch.growing = LocalAutoscaler(job.spec.rows_per_batch, per_write) if has_growing else None
    add_policies(context, per_write, Watch.growing)
    if not has_growing:
        return None
    leave_pool_alone(context)
    return replicas_at_first(job, rows)


@dataclass
class Queued:
    """Says what a job waits for that has not begun, and ends it where nobody follows."""

    job: Job
    followed: Followed
    said: str = ""

    def __call__(self, waits_for: str) -> None:
        """Say so, in the log where it is news."""
        if waits_for != self.said:
            print(f"the job waits for {waits_for}", flush=True)
            self.said = waits_for
        progress = Progress(self.job, Counts().snapshot, num_reads=1)
        with suppress(OSError):  # a storage that is away for a moment ends no wait
            progress.write("queued", Counts().snapshot(), JobStatus(waits_for=waits_for))
        self.followed.check()


def counting_actor(job: Job) -> Any:
    """The actor that counts, on the driver's own node: it is lost with the driver, if at all."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor = ray.remote(CountingActor).options(num_cpus=0, max_restarts=3, scheduling_strategy=here)
    return actor.remote(job.run_id, job.spec.name)


@dataclass
class LastSnapshot:
    """What the counting actor last said; no job ends for want of counts.

    One whose process died begins at zero: what it had said before counts on.
    """

    counts: Any
    last: Snapshot = field(default_factory=lambda: Counts().snapshot())
    said: Snapshot = field(default_factory=lambda: Counts().snapshot())
    """By the actor's process that is there now."""
    lost: Snapshot = field(default_factory=lambda: Counts().snapshot())
    """By those before it."""

    def __call__(self) -> Snapshot:
        """Ask; where the actor does not answer, what it said before."""
        with suppress(ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
            said = ray.get(self.counts.snapshot.remote(), timeout=SNAPSHOT_SECONDS)
            if is_begun_anew(self.said, said):
                self.lost = self.last
            self.said, self.last = said, together(self.lost, said)
        return self.last


def configure() -> None:
    """Ray Data's settings for our batches."""
    context = DataContext.get_current()
    # Every batch becomes a block of its own: Ray cuts a block that exceeds this at its rows, and
    # one row is one batch.
    context.target_max_block_size = 1
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.execution_options = ExecutionOptions(preserve_order=False)
    context.custom_execution_callback_classes = [Watch]
    # Of rows that readers pass over Ray sees nothing; `Watch` does.
    context.execution_no_progress_timeout_s = -1
    # Bounded retries have no named parameter yet.
    warnings.filterwarnings("ignore", message=".*`ray_remote_args` is deprecated.*")
