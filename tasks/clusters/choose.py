"""Which cluster a spec means."""

from tasks.clusters.inline import Inline
from tasks.clusters.local import Local
from tasks.clusters.ray_api import RayApi
from tasks.clusters.ray_jobs import RayJobs
from tasks.clusters.running import Cluster
from tasks.spec import AnyCluster, InlineCluster, LocalCluster, RayJobsCluster


def cluster_of(cluster: AnyCluster) -> Cluster:
    """The place where a spec's jobs run."""
    match cluster:
        case InlineCluster():
            return Inline()
        case LocalCluster():
            return Local()
        case RayJobsCluster():
            return RayJobs(api_of(cluster), cluster.python)


def api_of(cluster: RayJobsCluster) -> RayApi:
    """The API of a cluster that is named by its address or by a block.

    Raises:
        InvalidSpec: there is no such block.
    """
    if cluster.block is None:
        return RayApi(str(cluster.address).rstrip("/"))
    from tasks.clusters.ray_cluster import load_ray_cluster

    return load_ray_cluster(cluster.block).api()
