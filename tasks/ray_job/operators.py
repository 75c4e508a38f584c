"""What Ray's map operators call: a stage around the batches of a block."""

import os
from collections.abc import Iterator

import pyarrow as pa

from tasks.errors import BatchInferenceError
from tasks.protocol.batch import RowBatch
from tasks.ray_job.counts import Reporter, Stage, with_reports
from tasks.ray_job.datasource import from_block, to_block
from tasks.ray_job.deterministic_replay import in_same_parts
from tasks.ray_job.device_clock import with_device
from tasks.ray_job.forgotten_replica import end_if_forgotten
from tasks.ray_job.job import Job
from tasks.ray_job.killed_replica import spare_memory
from tasks.ray_job.lost_device import end_if_device_is_lost
from tasks.ray_job.poison_rows import InHand
from tasks.ray_job.profiling import profiled_stage
from tasks.ray_job.stage_adapter import StageAdapter
from tasks.ray_job.stage_error import raised_by
from tasks.ray_job.stage_functions import device_of, infer_stage, preprocess_stage, threads_for

BUILT: dict[str, StageAdapter] = {}
"""The preprocess stage of the job that this process works for, by the attempt's folder."""


def preprocess(block: pa.Table, job: Job, report: Reporter) -> Iterator[pa.Table]:
    """The preprocess stage."""
    threads = threads_of_worker(job.spec.stages.preprocess.num_cpus)
    in_hand = InHand.of_this_task(job, "preprocess")
    run = in_same_parts(preprocessing(job, threads, report, in_hand), job)
    for batch in from_block(block):
        if in_hand:
            in_hand.begin(batch)
        yield from map(to_block, run(batch))
    if in_hand:
        in_hand.forget()


def preprocessing(
    job: Job, num_threads: int, report: Reporter, in_hand: InHand | None = None
) -> Stage:
    """What it does to a batch; its functions are built once in each worker process.

    Args:
        job: what to do.
        num_threads: that its process has for it.
        report: told what it does.
        in_hand: notes each call, where there is any.

    Raises:
        BatchInferenceError: they cannot be built.
    """
    stage = BUILT.get(job.folder)
    if stage is None:
        BUILT.clear()
        try:
            stage = BUILT[job.folder] = preprocess_stage(job, num_threads)
        except BaseException as error:
            raise_if_ended_from_outside(error)
            known = on_this_node(raised_by("preprocess", error))
            raise known from known.__cause__
    if in_hand:
        stage = in_hand.noting(stage)
    return with_reports("preprocess", profiled_stage(job, "preprocess", stage), report)


class Infer:
    """One replica of the model."""

    def __init__(self, job: Job, num_gpus: float, report: Reporter) -> None:
        self.job, self.report = job, report
        self.stage: Stage
        self.is_ready = False
        self.in_hand: InHand | None = None
        end_if_forgotten()
        self.threads = threads_of_worker(job.spec.resources.cores)
        try:
            stage = infer_stage(job, device_of(num_gpus), self.threads)
            if spare_memory(job, stage.limit):
                self.in_hand = InHand.of_this_replica(job)
                stage = self.in_hand.noting(stage)
            profiled = profiled_stage(job, "infer", stage)
            self.stage = with_reports("infer", profiled, with_device(report, num_gpus))
            self.is_ready = True
        except BaseException as error:
            raise_if_ended_from_outside(error)
            # Ray turns what a constructor raises into text; what a call raises arrives whole.
            self.stage = failing(error)

    def __call__(self, block: pa.Table) -> Iterator[pa.Table]:
        """What becomes of the batches of a block."""
        run = in_same_parts(self.run, self.job)
        try:
            for batch in from_block(block):
                if self.in_hand:
                    self.in_hand.begin(batch)
                yield from map(to_block, run(batch))
        except Exception as error:
            if self.is_ready:
                end_if_device_is_lost(error, self.in_hand)
            raise

    def run(self, batch: RowBatch) -> Iterator[RowBatch]:
        """Predict."""
        return self.stage(batch)


class PreprocessAndInfer(Infer):
    """One replica that prepares its own batches.

    Ray's operator is named after the class, and so after both stages.
    """

    def run(self, batch: RowBatch) -> Iterator[RowBatch]:
        """Prepare and predict."""
        prepare = preprocessing(self.job, self.threads, self.report, self.in_hand)
        for prepared in prepare(batch):
            yield from self.stage(prepared)


def threads_of_worker(num_cpus: float) -> int:
    """Threads that this process is to use.

    Ray tells what uses OpenMP. Tokenizers use Rayon, which would take all of a node's cores; what
    the user has set for it stays.
    """
    threads = threads_for(num_cpus)
    os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    return threads


def raise_if_ended_from_outside(error: BaseException) -> None:
    """Let pass what ends a process from outside, as Ray does where a node is taken away.

    What user code raises to end it, as by sys.exit or where a library in Rust panics, is an error
    of the stage.

    Raises:
        BaseException: the error.
    """
    if isinstance(error, KeyboardInterrupt) or hasattr(error, "ray_terminate_msg"):
        raise error


def failing(error: BaseException) -> Stage:
    """A stage whose model could not be loaded."""
    known = on_this_node(raised_by("infer", error))

    def fail(batch: RowBatch) -> Iterator[RowBatch]:
        raise known

    return fail


def on_this_node(error: BatchInferenceError) -> BatchInferenceError:
    """An error that says where: on other nodes what failed may do."""
    import ray

    error.node = ray.get_runtime_context().get_node_id()
    return error
