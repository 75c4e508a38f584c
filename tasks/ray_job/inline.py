"""The same job in this process, without Ray: a thread a stage. What the Ray path is compared with.

For trials, tests, small inputs, and machines of few cores.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from tasks.errors import ErrorBudgetExceeded
from tasks.protocol.batch import RowBatch
from tasks.ray_job.batch_sizes import with_rows_per_batch
from tasks.ray_job.counts import Counts, Reporter, with_reports
from tasks.ray_job.follower_heartbeat import refuse_if_stopped
from tasks.ray_job.gathering import Gathering
from tasks.ray_job.job import Job
from tasks.ray_job.output_schema import KNOWN
from tasks.ray_job.own_machine import with_all_cores
from tasks.ray_job.profiling import profiled_stage
from tasks.ray_job.progress import JobStatus, Progress
from tasks.ray_job.reading import read_reported
from tasks.ray_job.stage_adapter import StageAdapter
from tasks.ray_job.stage_functions import (
    has_preprocessing,
    infer_stage,
    preprocess_stage,
    threads_for,
)
from tasks.ray_job.stage_threads import StageThreads
from tasks.ray_job.writing import batches_per_write, write_reported

MEDIA_ROWS = 256
"""Rows on their way at a time where media are decoded: memory, and how soon the model has work."""
LEAVE_SECONDS = 10.0
BUILDING = threading.Lock()
"""Two threads that import the same large library at once can see it half made."""
BUILDING_SECONDS = 120.0
"""By then it is whole; who takes longer loads a model, or hangs, and is in nobody's way."""


def run_inline(job: Job, stages: StageThreads | None) -> None:
    """Run its stages side by side over the attempt's shards.

    Args:
        job: what to do.
        stages: to be halted by whoever stops the job.

    Raises:
        BatchInferenceError: the job cannot go on.
    """
    job = with_all_cores(job)
    KNOWN.clear()  # an earlier attempt in this process may have lost the race to pin
    stages, counts = stages or StageThreads(), Counts()
    progress = Progress(job, counts.snapshot, num_reads=1, counts_once=True)
    progress.occupancy.is_one_machine = progress.occupancy.is_this_process = True
    status = partial(status_of, job, stages)
    try:
        start_stages(job, stages, counts.add)
        while not stages.is_over(within_seconds=progress.every_seconds):
            if counts.stages["infer"].rows:
                progress.occupancy.see(time.monotonic(), {})  # how busy the cores are, from now on
            try:
                progress.step(status)
            except ErrorBudgetExceeded as error:
                stages.halt(error, number=0)  # what has been read is recorded, and not done again
            refuse_if_stopped(job)
        progress.step(status)
        progress.finish()
    except BaseException as error:
        stages.halt(error)
        stages.join(LEAVE_SECONDS)
        progress.leave(status())
        raise
    stages.join(LEAVE_SECONDS)


def status_of(job: Job, stages: StageThreads) -> JobStatus:
    """Where the job stands: a model may take longer to load than rows may take to move."""
    at, waits_for = ("infer", "infer to load the model") if stages.is_loading else (None, None)
    return JobStatus(at, waits_for, job.spec.resources.cores, is_loading=stages.is_loading)


def start_stages(job: Job, stages: StageThreads, report: Reporter) -> None:
    """A thread for each stage that has something to do."""
    spec = job.spec
    smaller = in_smaller_batches(job)
    rows = stages.add("read", read_reported(smaller, 0, job.num_shards, report))
    builders: dict[str, Callable[[], StageAdapter]] = {}
    if has_preprocessing(spec, job.stages):
        threads = threads_for(spec.stages.preprocess.num_cpus)
        builders["preprocess"] = partial(preprocess_stage, job, threads)
    if "infer" in job.stages:
        builders["infer"] = partial(loaded, job, stages)
    for stage, build in builders.items():
        rows = stages.add(stage, run_stage(job, stage, build, rows, stages, report))
    stages.add("write", written(job, rows, per_write(job, smaller), report))


def loaded(job: Job, stages: StageThreads) -> StageAdapter:
    """The infer stage; `stages` says so while it is not there yet."""
    stages.is_loading = True
    try:
        return infer_stage(job, "cpu", threads_for(job.spec.resources.cores))
    finally:
        stages.is_loading = False


def in_smaller_batches(job: Job) -> Job:
    """The job as it is read: media in small batches, so that decoding and the model overlap."""
    rows = max(MEDIA_ROWS, job.spec.batch_size or 0)
    if not job.spec.source.has_media or rows >= job.spec.rows_per_batch:
        return job
    return with_rows_per_batch(job, rows)


def per_write(job: Job, smaller: Job) -> int:
    """How many of the smaller batches make a record; what is kept for another job stays small."""
    if "write" not in job.stages:
        return 1
    each = job.spec.rows_per_batch // smaller.spec.rows_per_batch
    return max(each, batches_per_write(smaller))


def run_stage(
    job: Job,
    stage: str,
    build: Callable[[], StageAdapter],
    rows: Iterable[RowBatch],
    stages: StageThreads,
    report: Reporter,
) -> Iterator[RowBatch]:
    """Batches as they come out of a stage, which is built in its own thread."""
    with one_at_a_time():
        adapter = build()
    functions = tuple(stages.stoppable(stage, each) for each in adapter.functions)
    adapter = replace(adapter, functions=functions)
    reporting = with_reports(stage, profiled_stage(job, stage, adapter), report)
    for batch in rows:
        yield from reporting(batch)


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """A block that all other threads of this process wait for, but not for ever."""
    is_ours = BUILDING.acquire(timeout=BUILDING_SECONDS)
    try:
        yield
    finally:
        if is_ours:
            BUILDING.release()


def written(
    job: Job, batches: Iterable[RowBatch], per_write: int, report: Reporter
) -> Iterator[RowBatch]:
    """Write; nothing comes out."""
    gathering = Gathering(job, per_write)
    for group in gathering.groups(batches):
        gathering.learn(write_reported(job, group, report))
    yield from ()
