"""What a run would find where it goes: nodes, GPUs, and the Ray that it joins."""

from contextlib import suppress

from tasks.clusters.own_ray import joined
from tasks.errors import InvalidSpec
from tasks.kinds.clusters import RayJobsCluster
from tasks.ray_job.cluster_capacity import Node
from tasks.ray_job.own_machine import is_own_machine
from tasks.reporting.evidence import Evidence
from tasks.reporting.figures import hours_held
from tasks.reporting.workers import gpus_here
from tasks.spec import BatchInferenceSpec
from tasks.whole import whole


def nodes_found(spec: BatchInferenceSpec, evidence: Evidence) -> list[Node] | None:
    """The nodes that a preview has found where a run would go; None where it was elsewhere.

    Args:
        spec: what the run would do.
        evidence: of the preview.
    """
    if evidence.planned.spec.cluster.kind != spec.cluster.kind:
        return None
    found = (each.occupancy.get("nodes") for each in reversed(evidence.attempts))
    return next(filter(None, found), None)


def within_limit(
    spec: BatchInferenceSpec, max_gpus: float | None, num_gpus: float
) -> BatchInferenceSpec:
    """The spec with no more replicas than a cluster's limit on GPUs allows, if it has one."""
    if not num_gpus or max_gpus is None:
        return spec
    allowed = max(1, whole(max_gpus / num_gpus))
    return spec.with_part("resources", max_replicas=min(spec.resources.most_replicas(), allowed))


def gpus_allowed(spec: BatchInferenceSpec, evidence: Evidence) -> float | None:
    """GPUs that jobs of a run's cluster may hold; a block's limit only a preview there knows.

    Args:
        spec: what the run would do.
        evidence: of the preview.
    """
    own = spec.cluster.max_gpus if isinstance(spec.cluster, RayJobsCluster) else None
    return evidence.last_job.max_gpus if own is None and evidence.last_job else own


def gpus_of_a_replica(spec: BatchInferenceSpec, evidence: Evidence) -> float | None:
    """GPUs that one replica of the model would hold in a run; None where nobody here knows.

    `auto` is what it was in a preview that went where a run would go. Of one in this process only
    this machine's GPUs are known.

    Args:
        spec: what the run would do.
        evidence: of the preview.
    """
    asked = spec.resources.num_gpus
    if asked != "auto":
        return asked
    if evidence.planned.spec.cluster.kind == spec.cluster.kind:
        return float(hours_held(evidence)["gpu_hours"] > 0)
    return gpus_here(spec) if is_own_machine(where_it_goes(spec)) else None


def where_it_goes(spec: BatchInferenceSpec) -> BatchInferenceSpec:
    """The spec with the Ray that a run would join; as it is where a run would find none there."""
    with suppress(InvalidSpec):
        return spec.model_copy(update={"cluster": joined(spec.cluster)})
    return spec
