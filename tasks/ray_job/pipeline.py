"""The job: its stages of read → preprocess → infer → write, as one streaming Ray Data pipeline.

Each row of Ray's is one batch of ours, which Ray then neither cuts nor joins: that is why
`batch_size` is 1 below.
"""

import ray
from ray.data import ActorPoolStrategy, Dataset, TaskPoolStrategy
from ray.data._internal.logical.interfaces import LogicalPlan
from ray.data._internal.logical.operators import Write

from tasks.machine import GIB
from tasks.ray_job.batch_sizes import BATCHES_IN_HAND
from tasks.ray_job.counts import Reporter
from tasks.ray_job.datasink import RecordDatasink
from tasks.ray_job.datasource import ShardDatasource
from tasks.ray_job.job import Job
from tasks.ray_job.operators import Infer, PreprocessAndInfer, preprocess
from tasks.ray_job.own_machine import most_readers, most_writers, preprocesses_in_replicas
from tasks.ray_job.stage_functions import has_preprocessing

RETRIES = {"max_retries": 5}
"""Of these a row that ends its process costs four, until it is set aside."""


def run_pipeline(
    job: Job,
    shares: list[tuple[int, int]],
    num_gpus: float,
    report: Reporter,
    replicas: int | None,
) -> None:
    """Run the job's stages over the attempt's shards until every batch has left its record.

    Ray's own retries are bounded, those of replicas by their restarts: without a bound a row that
    kills its process would do so for ever.

    Args:
        job: what to do.
        shares: first line and the one after the last of the attempt's todo, for each read task.
        num_gpus: GPUs of one replica.
        report: told what each stage does.
        replicas: to begin with; None: as few as may be.
    """
    stages = job.spec.stages
    rows = ray.data.read_datasource(
        ShardDatasource(job, shares, report),
        override_num_blocks=len(shares),
        num_cpus=stages.read.num_cpus,
        compute=TaskPoolStrategy(most_readers(job.spec)),
        ray_remote_args=dict(RETRIES),
    )
    in_replicas = preprocesses_in_replicas(job.spec, num_gpus, job.stages)
    if has_preprocessing(job.spec, job.stages) and not in_replicas:
        # `map_batches` only adds warnings about arguments that it passes on to this one.
        rows = rows.map_batches_internal(
            preprocess,
            fn_kwargs={"job": job, "report": report},
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=stages.preprocess.num_cpus,
            compute=TaskPoolStrategy(stages.preprocess.max_workers),
            **RETRIES,
        )
    if "infer" in job.stages:
        replica = PreprocessAndInfer if in_replicas else Infer
        rows = inferred(rows, replica, job, num_gpus, report, replicas)
    run_to_the_end(written(rows, job, report))


def inferred(
    rows: Dataset,
    replica: type[Infer],
    job: Job,
    num_gpus: float,
    report: Reporter,
    replicas: int | None,
) -> Dataset:
    """The infer stage: a pool of replicas of the model."""
    resources = job.spec.resources
    return rows.map_batches_internal(
        replica,
        fn_constructor_args=(job, num_gpus, report),
        batch_size=1,
        batch_format="pyarrow",
        num_cpus=resources.cores,
        num_gpus=num_gpus,
        memory=resources.memory_gb and resources.memory_gb * GIB,
        accelerator_type=resources.accelerator_type,
        compute=ActorPoolStrategy(
            min_size=resources.min_replicas,
            initial_size=replicas,
            max_size=resources.most_replicas(),
            max_tasks_in_flight_per_actor=BATCHES_IN_HAND,
        ),
        max_restarts=RETRIES["max_retries"],
        # Bounded by restarts: until Ray knows that a node is gone, calls fail many times a second.
        max_task_retries=-1,
    )


def written(rows: Dataset, job: Job, report: Reporter) -> Dataset:
    """The write stage, as `write_datasink` would add it, which would also run it all at once."""
    stage = Write(
        RecordDatasink(job, report),
        input_dependencies=[rows._logical_plan.dag],
        ray_remote_args={"num_cpus": job.spec.stages.write.num_cpus, **RETRIES},
        compute=TaskPoolStrategy(most_writers(job.spec)),
    )
    return Dataset._from_parent(rows, LogicalPlan(stage, rows.context))


def run_to_the_end(stages: Dataset) -> None:
    """Run all stages, of which nothing was started before, and keep nothing that they return.

    `write_datasink` would keep what its tasks return until the last, and Ray all that it needs to
    have it made again: 20 KiB of the driver's memory for each batch.
    """
    for _ in stages.iter_internal_ref_bundles():
        pass
