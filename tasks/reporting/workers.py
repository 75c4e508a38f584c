"""Workers that each stage could have, as far as this machine knows."""

import math

from tasks.kinds.clusters import InlineCluster
from tasks.machine import cores
from tasks.preflight import count_gpus
from tasks.ray_job.counts import STAGES
from tasks.ray_job.own_machine import most_readers, most_writers
from tasks.spec import BatchInferenceSpec


def workers_at_hand(spec: BatchInferenceSpec, num_shards: int) -> dict[str, int]:
    """Workers that each stage could have had, as far as this machine knows."""
    if isinstance(spec.cluster, InlineCluster):
        return dict.fromkeys(STAGES, 1)
    here, stages = cores(), spec.stages
    read, preprocess, write = stages.read, stages.preprocess, stages.write
    return {
        "read": max(1, min(room(here, read.num_cpus, most_readers(spec)), num_shards)),
        "preprocess": room(here, preprocess.num_cpus, preprocess.max_workers),
        "infer": max(1, replicas_that_fit(spec, here)),
        "write": room(here, write.num_cpus, most_writers(spec)),
    }


def room(here: int, num_cpus: float, most: int | None) -> int:
    """Workers that fit some cores, where each holds so many."""
    fit = math.floor(here / num_cpus) if num_cpus else most or here
    return max(1, min(fit, most or fit))


def replicas_that_fit(spec: BatchInferenceSpec, num_cpus: int) -> int:
    """Replicas of the model that fit this machine; no bound where the cluster is elsewhere."""
    resources, gpus = spec.resources, count_gpus()
    if getattr(spec.cluster, "address", None):
        return resources.most_replicas()
    each = (1.0 if gpus else 0.0) if resources.num_gpus == "auto" else resources.num_gpus
    fit = math.floor(num_cpus / resources.num_cpus)
    fit = min(fit, math.floor(gpus / each)) if each else fit
    return min(fit, resources.most_replicas(fit))
