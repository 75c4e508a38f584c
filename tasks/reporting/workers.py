"""Workers that each stage could have, as far as this machine knows."""

import math
import os

from tasks.kinds.clusters import InlineCluster
from tasks.preflight import count_gpus
from tasks.ray_job.counts import STAGES
from tasks.ray_job.own_machine import most_writers
from tasks.spec import BatchInferenceSpec


def workers_at_hand(spec: BatchInferenceSpec, num_shards: int) -> dict[str, int]:
    """Workers that each stage could have had, as far as this machine knows."""
    if isinstance(spec.cluster, InlineCluster):
        return dict.fromkeys(STAGES, 1)
    cores, stages = os.cpu_count() or 1, spec.stages
    read, preprocess, write = stages.read, stages.preprocess, stages.write
    return {
        "read": max(1, min(room(cores, read.num_cpus, read.max_workers), num_shards)),
        "preprocess": room(cores, preprocess.num_cpus, preprocess.max_workers),
        "infer": max(1, replicas_that_fit(spec, cores)),
        "write": room(cores, write.num_cpus, most_writers(spec)),
    }


def room(cores: int, num_cpus: float, most: int | None) -> int:
    """Workers that fit some cores, where each holds so many."""
    fit = math.floor(cores / num_cpus) if num_cpus else most or cores
    return max(1, min(fit, most or fit))


def replicas_that_fit(spec: BatchInferenceSpec, cores: int) -> int:
    """Replicas of the model that fit this machine; no bound where the cluster is elsewhere."""
    resources, gpus = spec.resources, count_gpus()
    if getattr(spec.cluster, "address", None):
        return resources.most_replicas()
    each = (1.0 if gpus else 0.0) if resources.num_gpus == "auto" else resources.num_gpus
    fit = math.floor(cores / resources.num_cpus)
    fit = min(fit, math.floor(gpus / each)) if each else fit
    return min(fit, resources.most_replicas(fit))
