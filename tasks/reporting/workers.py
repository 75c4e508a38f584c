"""Workers that each stage could have, as far as this machine knows."""

from tasks.kinds.clusters import InlineCluster
from tasks.machine import cores
from tasks.preflight import count_gpus
from tasks.ray_job.counts import STAGES
from tasks.ray_job.own_machine import (
    is_own_machine,
    most_readers,
    most_writers,
    replicas_that_fit,
)
from tasks.ray_job.room import gpus_of_replica
from tasks.spec import BatchInferenceSpec
from tasks.whole import whole


def workers_at_hand(spec: BatchInferenceSpec, num_shards: int) -> dict[str, int]:
    """Workers that each stage could have had, as far as this machine knows."""
    if isinstance(spec.cluster, InlineCluster):
        return dict.fromkeys(STAGES, 1)
    here, stages = cores(), spec.stages
    read, preprocess, write = stages.read, stages.preprocess, stages.write
    return {
        "read": max(1, min(room(here, read.num_cpus, most_readers(spec)), num_shards)),
        "preprocess": room(here, preprocess.num_cpus, preprocess.max_workers),
        "infer": replicas_at_hand(spec, here),
        "write": room(here, write.num_cpus, most_writers(spec)),
    }


def room(here: int, num_cpus: float, most: int | None) -> int:
    """Workers that fit some cores, where each holds so many."""
    fit = whole(here / num_cpus) if num_cpus else most or here
    return max(1, min(fit, most or fit))


def replicas_at_hand(spec: BatchInferenceSpec, here: int) -> int:
    """Replicas of the model; of a cluster elsewhere, whose room nobody here knows, all."""
    resources, gpus = spec.resources, float(count_gpus())
    if not is_own_machine(spec):
        return resources.most_replicas()
    return room(here, resources.cores, replicas_that_fit(resources, gpus_here(spec), here, gpus))


def gpus_here(spec: BatchInferenceSpec) -> float:
    """GPUs of one replica on this machine."""
    return gpus_of_replica(spec.resources, [{"GPU": float(count_gpus())}])
