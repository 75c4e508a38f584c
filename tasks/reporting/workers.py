"""Workers that each stage could have, as far as this machine knows, or a preview has seen."""

from tasks.kinds.clusters import InlineCluster, RemoteCluster
from tasks.machine import cores
from tasks.planning.preflight import count_gpus
from tasks.ray_job.cluster_capacity import Node, gpus_of_replica
from tasks.ray_job.counts import STAGES
from tasks.ray_job.own_machine import (
    is_own_machine,
    most_readers,
    most_writers,
    replicas_that_fit,
)
from tasks.reporting.spare_capacity import replicas_that_fit_on
from tasks.spec import BatchInferenceSpec
from tasks.whole import whole


def workers_at_hand(
    spec: BatchInferenceSpec, num_shards: int, nodes: list[Node] | None = None
) -> dict[str, int]:
    """Workers that each stage could have had.

    Args:
        spec: with the Ray that a run would join.
        num_shards: parts of the input.
        nodes: of a cluster elsewhere, as somebody has found them; None where nobody has looked:
            then its cores are taken to be as many as this machine's.
    """
    if isinstance(spec.cluster, InlineCluster):
        return dict.fromkeys(STAGES, 1)
    here, stages = cores(), spec.stages
    if nodes and not is_own_machine(spec):
        here = max(1, whole(sum(node.get("CPU", 0.0) for node in nodes)))
    read, preprocess, write = stages.read, stages.preprocess, stages.write
    return {
        "read": max(1, min(room(here, read.num_cpus, most_readers(spec)), num_shards)),
        "preprocess": room(here, preprocess.num_cpus, preprocess.max_workers),
        "infer": replicas_at_hand(spec, here, nodes),
        "write": room(here, write.num_cpus, most_writers(spec)),
    }


def room(here: int, num_cpus: float, most: int | None) -> int:
    """Workers that fit some cores, where each holds so many."""
    fit = whole(here / num_cpus) if num_cpus else most or here
    return max(1, min(fit, most or fit))


def replicas_at_hand(spec: BatchInferenceSpec, here: int, nodes: list[Node] | None) -> int:
    """Replicas of the model; of a cluster whose room nobody knows, or that grows, all."""
    resources, gpus = spec.resources, float(count_gpus())
    if not is_own_machine(spec):
        most = resources.most_replicas()
        if not nodes or may_grow(spec):
            return most
        return max(resources.min_replicas, min(most, replicas_that_fit_on(spec, nodes)))
    return room(here, resources.cores, replicas_that_fit(resources, gpus_here(spec), here, gpus))


def may_grow(spec: BatchInferenceSpec) -> bool:
    """Whether nodes are added to a run's cluster where it asks for them."""
    cluster = spec.cluster
    return isinstance(cluster, RemoteCluster) and cluster.wait_for_nodes_seconds > 0


def gpus_here(spec: BatchInferenceSpec) -> float:
    """GPUs of one replica on this machine."""
    return gpus_of_replica(spec.resources, [{"GPU": float(count_gpus())}])
