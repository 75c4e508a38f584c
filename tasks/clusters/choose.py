"""Which cluster a spec means."""

from contextlib import suppress

from tasks.clusters.inline import Inline
from tasks.clusters.kuberay import KubeRay
from tasks.clusters.kuberay_manifest import has_gpus, load_manifest
from tasks.clusters.local import Local
from tasks.clusters.ray_api import RayApi
from tasks.clusters.ray_jobs import RayJobs
from tasks.clusters.running import Cluster
from tasks.errors import BatchInferenceError, Unreachable
from tasks.kinds.clusters import (
    AnyCluster,
    InlineCluster,
    KubeRayCluster,
    LocalCluster,
    RayJobsCluster,
)
from tasks.ray_job.cluster_capacity import gpus_of_replica
from tasks.resources import Resources
from tasks.spec import BatchInferenceSpec


def cluster_of(cluster: AnyCluster) -> Cluster:
    """The place where a spec's jobs run."""
    match cluster:
        case InlineCluster():
            return Inline()
        case LocalCluster():
            return Local()
        case RayJobsCluster():
            return RayJobs(api_of(cluster), cluster.python)
        case KubeRayCluster():
            return KubeRay(cluster)


def is_same_place(one: AnyCluster, other: AnyCluster) -> bool:
    """Whether jobs that were started as one spec says are found as the other says."""
    return place_of(one) == place_of(other)


def place_of(cluster: AnyCluster) -> tuple[str | None, ...]:
    """What tells places where jobs run from one another."""
    match cluster:
        case RayJobsCluster():
            return cluster.kind, cluster.address, cluster.block
        case KubeRayCluster():
            return cluster.kind, cluster.context, cluster.namespace
        case _:
            return (cluster.kind,)


def release(cluster: AnyCluster, run_id: str) -> str | None:
    """A run has ended, whichever way: end what was made for it alone, where there is any.

    Returns:
        What could not be ended now, for the log; it ends when its time is up.
    """
    if not isinstance(cluster, KubeRayCluster):
        return None
    try:
        KubeRay(cluster).release(run_id)
    except BatchInferenceError as error:
        return f"the cluster of run {run_id} could not be deleted: {error}"
    return None


def resources_on(spec: BatchInferenceSpec) -> Resources:
    """What a replica gets, where `auto` has to be settled before the job is.

    Of a cluster that is made for the run, nodes with GPUs come when they are asked for, so none
    is there for `auto` to find. Of one whose GPUs are shared out, none are claimed while it has
    none, and those that come later are for others.

    Raises:
        InvalidSpec: there is no such block.
    """
    cluster, resources = spec.cluster, spec.resources
    if resources.num_gpus != "auto":
        return resources
    if isinstance(cluster, KubeRayCluster):
        return resources.model_copy(update={"num_gpus": float(has_gpus(load_manifest(cluster)))})
    if isinstance(cluster, RayJobsCluster) and max_gpus_of(cluster) is not None:
        with suppress(Unreachable):  # then it claims GPUs, and takes them where there are any
            nodes = [node["resources_total"] for node in api_of(cluster).nodes()]
            if not gpus_of_replica(resources, nodes):
                return resources.model_copy(update={"num_gpus": 0.0})
    return resources


def max_gpus_of(cluster: AnyCluster) -> float | None:
    """GPUs that all jobs of a cluster may hold together; None where nobody has set a limit.

    Raises:
        InvalidSpec: there is no such block.
    """
    if not isinstance(cluster, RayJobsCluster):
        return None
    if cluster.max_gpus is not None or cluster.block is None:
        return cluster.max_gpus
    from tasks.clusters.ray_cluster import load_ray_cluster

    return load_ray_cluster(cluster.block).max_gpus


def api_of(cluster: RayJobsCluster) -> RayApi:
    """The API of a cluster that is named by its address or by a block.

    Raises:
        InvalidSpec: there is no such block.
    """
    if cluster.block is None:
        return RayApi(str(cluster.address).rstrip("/"))
    from tasks.clusters.ray_cluster import load_ray_cluster

    return load_ray_cluster(cluster.block).api()
