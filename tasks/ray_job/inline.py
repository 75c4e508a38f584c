"""The same job in this process, without Ray: for trials, tests and small inputs."""

from collections.abc import Callable, Iterator

from tasks.protocol.batch import RowBatch
from tasks.ray_job.counts import Counts, Reporter, counted
from tasks.ray_job.job import Job
from tasks.ray_job.profiling import profiled_stage
from tasks.ray_job.progress import Progress, Standing
from tasks.ray_job.reading import read_reported
from tasks.ray_job.stage_functions import (
    has_preprocessing,
    infer_stage,
    limit_threads,
    preprocess_stage,
)
from tasks.ray_job.writing import PINNED, write_reported


def run_inline(job: Job) -> None:
    """Run its stages over the attempt's shards, one batch after another.

    Raises:
        BatchInferenceError: the job cannot go on.
    """
    PINNED.clear()  # an earlier attempt in this process may have lost the race to pin
    counts = Counts()
    progress = Progress(job, counts.snapshot, num_reads=1)
    preprocess = preprocessing(job, counts.add)
    threads = limit_threads(job.spec.resources.num_cpus)
    standing = Standing(cpus=job.spec.resources.num_cpus)
    infer: Callable[[RowBatch], Iterator[RowBatch]] = unchanged
    if "infer" in job.stages:
        stage = profiled_stage(job, "infer", infer_stage(job, "cpu", threads))
        infer = counted("infer", stage, counts.add)
    for read in read_reported(job, 0, job.num_shards, counts.add):
        for prepared in preprocess(read):
            for predicted in infer(prepared):
                write_reported(job, [predicted], counts.add)
                progress.step(lambda: standing)
    progress.finish()


def unchanged(batch: RowBatch) -> Iterator[RowBatch]:
    """A stage that has nothing to do."""
    yield batch


def preprocessing(job: Job, report: Reporter) -> Callable[[RowBatch], Iterator[RowBatch]]:
    """The preprocess stage; hands batches on where it has nothing to do."""
    if not has_preprocessing(job.spec, job.stages):
        return unchanged
    return counted("preprocess", profiled_stage(job, "preprocess", preprocess_stage(job)), report)
