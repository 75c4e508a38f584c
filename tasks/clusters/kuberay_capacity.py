"""Whether the nodes that a RayCluster's manifest can bring have room for what the stages ask for.

Ray's autoscaler adds nodes by what the manifest says of them. What none of its groups can hold
would be waited for in vain for `wait_for_nodes_seconds`, at night and with a head that costs.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from tasks.clusters.kuberay_manifest import load_manifest, manifest_file
from tasks.errors import InvalidSpec
from tasks.kinds.clusters import KubeRayCluster
from tasks.ray_job.cluster_capacity import Node, in_gib, refuse_crowded, refuse_unmet, requests_of
from tasks.spec import BatchInferenceSpec

NOT_READ = (ValueError, LookupError, TypeError, AttributeError, AssertionError, ArithmeticError)
"""What Ray's own reader of a group says of one that it cannot read."""

NO_DEVICES = {"cpu", "memory", "ephemeral-storage"}
"""What limits name beside devices."""
ANY_NUMBER = 2**31 - 1
"""What KubeRay has a group's `maxReplicas` be where it is left out."""


@dataclass(frozen=True)
class Group:
    """Nodes of one kind."""

    node: Node
    """What each has, by the manifest."""
    at_start: int
    """So many are there without being asked for."""
    most: int
    """So many there may be."""


def refuse_beyond_manifest(spec: BatchInferenceSpec, cluster: KubeRayCluster) -> None:
    """See that each stage's request fits nodes of the manifest, however many come.

    Raises:
        InvalidSpec: names the field, what was asked for, and what there can be; or Ray's autoscaler
            could not read the manifest.
    """
    groups = groups_for(spec, cluster)
    if groups is None:
        return
    if gpu := spec.resources.accelerator_type:
        refuse_unnamed_gpu(gpu, groups, cluster)
    enough = spec.resources.min_replicas + 1
    nodes = [node for group in groups for node in [group.node] * min(group.most, enough)]
    file = f"cluster.manifest, {manifest_file(cluster)},"
    refuse_unmet(spec, nodes, f"the largest node of {file}")
    refuse_crowded(spec, nodes, whose=f"a cluster of {file}")


def most_replicas(spec: BatchInferenceSpec, cluster: KubeRayCluster) -> int:
    """Replicas that nodes of a manifest can hold, however many come.

    Args:
        spec: with what a replica asks for; `auto` is settled.
        cluster: the spec's.

    Raises:
        InvalidSpec: as `groups_of`.
    """
    replica, groups = requests_of(spec)[0], groups_for(spec, cluster) or ()
    return sum(group.most * replica.fit_on(group.node) for group in groups)


def groups_for(spec: BatchInferenceSpec, cluster: KubeRayCluster) -> list[Group] | None:
    """The groups as they are for a spec: of the kind of GPU that it asks for where they may be.

    Raises:
        InvalidSpec: as `groups_of`.
    """
    groups, gpu = groups_of(cluster), spec.resources.accelerator_type
    if groups is None or not gpu:
        return groups
    return [with_own_gpu(group, gpu, groups) for group in groups]


def groups_of(cluster: KubeRayCluster) -> list[Group] | None:
    """The groups of a cluster's manifest, the head first; None where only nodes themselves can say.

    Raises:
        InvalidSpec: Ray's autoscaler could not read them, and would never add a node.
    """
    spec = without_nulls(load_manifest(cluster)["spec"])
    grows = bool(spec.get("enableInTreeAutoscaling"))
    workers = [each for each in spec.get("workerGroupSpecs", []) if not each.get("suspend")]
    try:
        head = node_of(spec["headGroupSpec"], is_head=True, is_there=True)
        return [Group(head, 1, 1), *(group_of(each, grows=grows) for each in workers)]
    except NOT_READ as error:
        if not grows:
            return None
        raise InvalidSpec.at(
            "cluster.manifest",
            manifest_file(cluster),
            f"cannot be read by Ray's autoscaler, which would add no node: {error}",
        ) from error


def group_of(given: dict[str, Any], *, grows: bool) -> Group:
    """A group of workers.

    Args:
        given: the manifest's.
        grows: whether an autoscaler adds nodes to it.
    """
    hosts = given.get("numOfHosts", 1)
    at_start = max(given.get("replicas", 0), given.get("minReplicas", 0)) * hosts
    most = given.get("maxReplicas", ANY_NUMBER) * hosts if grows else at_start
    return Group(node_of(given, is_head=False, is_there=at_start > 0), at_start, most)


def node_of(group: dict[str, Any], *, is_head: bool, is_there: bool) -> Node:
    """What a node of a group has, as Ray's autoscaler reads it.

    Args:
        group: the manifest's.
        is_head: whether it is the head's.
        is_there: whether such a node is there from the start, and then says itself what memory it
            has where the manifest does not, and of a device such as a part of a GPU what it is.
    """
    from ray.autoscaler._private.kuberay.autoscaling_config import (
        _get_ray_resources_from_group_spec,
    )

    node = _get_ray_resources_from_group_spec(group, is_head)
    if not is_there:
        return in_gib(node)
    resources = group["template"]["spec"]["containers"][0].get("resources", {})
    devices = resources.get("limits", {}).keys() - NO_DEVICES or resources.get("claims")
    return in_gib({"memory": math.inf, **({"GPU": math.inf} if devices else {}), **node})


def with_own_gpu(group: Group, gpu: str, groups: list[Group]) -> Group:
    """A group whose nodes may say themselves that their GPU is such.

    A node that runs does. The autoscaler adds one of a group that says nothing of its GPUs only
    for what asks for none in particular, as for a stage without GPUs where all groups have them.

    Args:
        group: of a manifest.
        gpu: what is asked for.
        groups: all of the manifest's, the head first.
    """
    says = any(name.startswith("accelerator_type:") for name in group.node)
    comes = group.at_start or all(each.node.get("GPU") for each in groups[1:])
    if says or not group.node.get("GPU") or not comes:
        return group
    return replace(group, node={**group.node, f"accelerator_type:{gpu}": 1.0})


def refuse_unnamed_gpu(gpu: str, groups: list[Group], cluster: KubeRayCluster) -> None:
    """See that a kind of GPU which is asked for is one that the autoscaler can know of.

    Raises:
        InvalidSpec: no group has it, by what the manifest says.
    """
    name = f"accelerator_type:{gpu}"
    if any(group.node.get(name) for group in groups):
        return
    problem = (
        f"is requested, but no group of cluster.manifest, {manifest_file(cluster)}, declares such "
        "GPUs, so Ray's autoscaler would add none: write "
        f'resources: {{"{name}": "1"}} beside the groupName of the one that has them, or leave it '
        "out"
    )
    raise InvalidSpec.at("resources.accelerator_type", gpu, problem)


def without_nulls(value: Any) -> Any:
    """A part of a manifest as Kubernetes keeps it: what is null is not there."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value
