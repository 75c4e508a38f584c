"""Workers that each stage could have, as far as this machine knows."""

import math

from tasks.kinds.clusters import InlineCluster
from tasks.machine import cores
from tasks.preflight import count_gpus
from tasks.ray_job.counts import STAGES
from tasks.resources import StageOptions
from tasks.spec import BatchInferenceSpec


def workers_at_hand(spec: BatchInferenceSpec, num_shards: int) -> dict[str, int]:
    """Workers that each stage could have had, as far as this machine knows."""
    if isinstance(spec.cluster, InlineCluster):
        return dict.fromkeys(STAGES, 1)
    here = cores()
    return {
        "read": max(1, min(room(here, spec.stages.read), num_shards)),
        "preprocess": room(here, spec.stages.preprocess),
        "infer": max(1, replicas_that_fit(spec, here)),
        "write": room(here, spec.stages.write),
    }


def room(num_cpus: int, stage: StageOptions) -> int:
    """Workers of a stage that fit some cores."""
    fit = math.floor(num_cpus / stage.num_cpus) if stage.num_cpus else stage.max_workers or num_cpus
    return max(1, min(fit, stage.max_workers or fit))


def replicas_that_fit(spec: BatchInferenceSpec, num_cpus: int) -> int:
    """Replicas of the model that fit this machine; no bound where the cluster is elsewhere."""
    resources, gpus = spec.resources, count_gpus()
    if getattr(spec.cluster, "address", None):
        return resources.most_replicas()
    each = (1.0 if gpus else 0.0) if resources.num_gpus == "auto" else resources.num_gpus
    fit = math.floor(num_cpus / resources.num_cpus)
    fit = min(fit, math.floor(gpus / each)) if each else fit
    return min(fit, resources.most_replicas(fit))
