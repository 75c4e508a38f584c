"""What is different where a job has this machine to itself, most of it with a Ray of its own.

Its cores are all there is. A replica that waits for others to prepare its batches leaves its core
idle, and cores kept for others idle too; so each replica prepares its own, and replicas have all
cores. On a GPU, and on nodes with many cores, preprocessing is to go on beside them.
"""

import math
from dataclasses import replace

from tasks.kinds.clusters import InlineCluster, LocalCluster
from tasks.kinds.sources.source import Source
from tasks.machine import GIB, MEMORY_TO_USE, cores, free_memory
from tasks.protocol.urls import is_path
from tasks.ray_job.cluster_capacity import cores_side_by_side
from tasks.ray_job.counts import STAGES
from tasks.ray_job.job import Job, with_max_replicas
from tasks.ray_job.stage_functions import has_preprocessing
from tasks.resources import PreprocessOptions, ReadOptions, Resources
from tasks.spec import BatchInferenceSpec
from tasks.whole import whole

WRITERS = 4
READING = 1
"""Cores handed out beyond those there are: readers mostly wait, and batches must not."""
ROW_BYTES_PER_SECOND = 0.8e9
"""Bytes of weights that a core takes rows through: 20e9 multiplications by single floats, and a
hundred of these a row, as of patches or tokens. A guess that can be wrong by ten times."""
SURE_SECONDS = 60.0
"""By that guess; a replica takes some five to start."""
MOST_THREADS = 8
"""Of the only replica: nobody has measured more, and each has a batch of its own in memory."""
THREADS = 2
"""Cores of a replica whose model uses threads: more are in each other's way before long."""
LIBRARY_BYTES, LOADING = GIB, 4
"""Memory of a replica: that of its libraries, and this many times its weights while they load."""


def is_own_machine(spec: BatchInferenceSpec) -> bool:
    """Whether Ray runs on this machine alone, where planning has checked what nodes could lack."""
    return isinstance(spec.cluster, LocalCluster) and spec.cluster.address is None


def replicas_have_the_cores(spec: BatchInferenceSpec, num_gpus: float) -> bool:
    """Whether the cores are for replicas first: there is no GPU, and no stage was given workers."""
    return is_own_machine(spec) and not num_gpus and not has_workers_of_its_own(spec)


def preprocesses_in_replicas(
    spec: BatchInferenceSpec, num_gpus: float, stages: tuple[str, ...] = STAGES
) -> bool:
    """Whether replicas do the preprocessing.

    Of most kinds it takes one core; a replica with more would leave the others idle meanwhile.

    Args:
        spec: asks.
        num_gpus: GPUs of one replica.
        stages: those of the job.
    """
    return (
        replicas_have_the_cores(spec, num_gpus)
        and (spec.resources.cores <= 1 or prefers_threads(spec))
        and "infer" in stages
        and has_preprocessing(spec, stages)
    )


def prefers_threads(spec: BatchInferenceSpec) -> bool:
    """Whether a replica of several cores uses them all, whatever it does."""
    return spec.model.prefers_threads and not any(each.is_heavy for each in spec.steps)


def with_cores(spec: BatchInferenceSpec, num_gpus: float) -> BatchInferenceSpec:
    """The spec with a number for `resources.num_cpus`.

    Args:
        spec: asks.
        num_gpus: GPUs of one replica.
    """
    num_cpus = spec.resources.cores
    if spec.resources.num_cpus == "auto":
        num_cpus = cores_of_replica(spec, num_gpus)
    return spec.with_part("resources", num_cpus=float(num_cpus))


def cores_of_replica(spec: BatchInferenceSpec, num_gpus: float) -> int:
    """Cores of a replica where nobody has asked for a number.

    All, or many, for the only one there is. Of several, two threads are as quick as two replicas,
    where they share all cores out evenly. There are half as many processes to start, weights in
    memory, and last batches to wait for.

    Args:
        spec: asks.
        num_gpus: GPUs of one replica.
    """
    if isinstance(spec.cluster, InlineCluster):
        return min(cores(), MOST_THREADS) if spec.model.uses_threads else 1
    fits = cores() % THREADS == 0 and spec.resources.min_replicas * THREADS <= cores()
    is_sure = fits and prefers_threads(spec) and replicas_have_the_cores(spec, num_gpus)
    return THREADS if is_sure else 1


def has_workers_of_its_own(spec: BatchInferenceSpec) -> bool:
    """Whether somebody has said what workers preprocessing is to have."""
    options, usual = spec.stages.preprocess, PreprocessOptions()
    return (options.num_cpus, options.max_workers) != (usual.num_cpus, usual.max_workers)


def fitted(job: Job, num_gpus: float, gpus: float) -> Job:
    """The job with as many replicas as this machine has room for, or fewer where it says so.

    Of each it is then known how many cores it has.

    Args:
        job: asks.
        num_gpus: GPUs of one replica.
        gpus: those of the machine.
    """
    job = replace(job, spec=with_cores(job.spec, num_gpus))
    most = replicas_that_fit(job.spec.resources, num_gpus, cores(), gpus)
    return with_max_replicas(job, most)


def with_all_cores(job: Job) -> Job:
    """The job without Ray: its model has the cores, and its preprocessing as many threads.

    Unless somebody asks for a number, or the job has no model.

    Args:
        job: asks.
    """
    if "infer" not in job.stages or job.spec.resources.num_cpus != "auto":
        return job
    spec = with_cores(job.spec, num_gpus=0.0)
    most = max(spec.resources.cores, spec.stages.preprocess.num_cpus)
    preprocess = spec.stages.preprocess.model_copy(update={"num_cpus": most})
    return replace(job, spec=spec.with_part("stages", preprocess=preprocess))


def replicas_that_fit(resources: Resources, num_gpus: float, num_cpus: int, gpus: float) -> int:
    """Replicas that a machine has room for, or fewer where it is said so.

    Args:
        resources: what is asked for.
        num_gpus: GPUs of one replica.
        num_cpus: cores of the machine.
        gpus: those of the machine.
    """
    room = whole(gpus / num_gpus if num_gpus else num_cpus / resources.cores)
    return max(resources.min_replicas, min(room, resources.most_replicas(room)))


def replicas_at_first(job: Job, rows: int | None) -> int:
    """Replicas to begin with, of a job that has the cores of this machine.

    All that it may have and there is memory for, where its weights say that rows will take long;
    else as few as may be, and others are added where cores are idle: their start takes seconds.

    Args:
        job: what to do, its replicas fitted to this machine.
        rows: left to do, as far as that can be known.
    """
    resources, size = job.spec.resources, job.spec.model.weights_bytes
    if not rows or not size or rows * size / ROW_BYTES_PER_SECOND < SURE_SECONDS:
        return resources.min_replicas
    fits = int(free_memory() * MEMORY_TO_USE / (LIBRARY_BYTES + LOADING * size))
    return max(resources.min_replicas, min(resources.most_replicas(), fits))


def most_readers(spec: BatchInferenceSpec) -> int | None:
    """Readers at most; None: as many as there are cores and parts for.

    This machine's disk answers at once: one more costs its imports, and has little to wait for.
    """
    options, source = spec.stages.read, spec.source
    if options.max_workers is not None or options.num_cpus != ReadOptions().num_cpus:
        return options.max_workers
    return few() if is_own_machine(spec) and lies_near(source) else None


def most_writers(spec: BatchInferenceSpec) -> int:
    """Writers at most: some, for they wait for the storage; fewer where they only take cores.

    Ray starts as many as there are batches to write by the time that the first one is there, and
    each pays for its imports. One alone would wait for Ray to hand it each batch.
    """
    if spec.stages.write.max_workers is not None:
        return spec.stages.write.max_workers
    is_near = is_own_machine(spec) and is_path(spec.sink.path)
    return min(WRITERS, few()) if is_near else WRITERS


def lies_near(source: Source) -> bool:
    """Whether a source's files are on this machine's disk."""
    return source.holds == "file" and all(map(is_path, source.paths))


def few() -> int:
    """Workers that only take cores from replicas: half as many as there are, and at least two."""
    return max(2, cores() // 2)


def cores_handed_out(spec: BatchInferenceSpec) -> int:
    """What Ray takes this machine to have.

    With fewer cores than it takes, stages that run side by side share those there are.
    """
    reading = 0 if has_workers_of_its_own(spec) else READING
    return max(cores() + reading, math.ceil(cores_side_by_side(spec, STAGES)))
