"""Whether there was room where a run was: for more workers, or for a spec that is to be advised."""

import math

from tasks.errors import InvalidSpec
from tasks.ray_job.cluster_capacity import (
    Node,
    gpus_of_replica,
    refuse_crowded,
    refuse_unmet,
    requests_of,
)
from tasks.ray_job.counts import STAGES
from tasks.ray_job.gpu_queue import refuse_beyond
from tasks.ray_job.own_machine import is_own_machine
from tasks.reporting.knobs import knobs_of
from tasks.reporting.timings import Timings
from tasks.spec import BatchInferenceSpec
from tasks.whole import whole


def is_accepted(spec: BatchInferenceSpec, timings: Timings) -> bool:
    """Whether a run of the spec would be let in on the nodes that there were."""
    nodes = nodes_there(spec, timings)
    num_gpus = gpus_of_replica(spec.resources, nodes)
    spec = spec.with_part("resources", num_gpus=num_gpus)
    try:
        refuse_unmet(spec, nodes, "the cluster")
        if timings.max_gpus is not None:
            refuse_beyond(spec, timings.max_gpus, num_gpus)
        if not is_own_machine(spec):  # whose Ray is told of as many cores as it takes
            refuse_crowded(spec, nodes)
    except InvalidSpec:
        return False
    return True


def nodes_there(spec: BatchInferenceSpec, timings: Timings) -> list[Node]:
    """What nodes there were, as a spec is measured by them: of its own machine, the real cores."""
    if is_own_machine(spec):
        return [{**node, "CPU": timings.cores} for node in timings.nodes]
    return timings.nodes


def workers_that_fit(spec: BatchInferenceSpec, stage: str, timings: Timings) -> float:
    """Workers of a stage that the nodes could hold if nothing else ran there."""
    nodes = nodes_there(spec, timings)
    if timings.cores > sum(node.get("CPU", 0.0) for node in nodes):
        return math.inf  # others came, of which nobody knows how large they were
    if stage == "infer":
        return replicas_that_fit_on(spec, nodes)
    each = knobs_of(spec, stage).num_cpus
    return sum(whole(node.get("CPU", 0.0) / each) for node in nodes) if each else math.inf


def replicas_that_fit_on(spec: BatchInferenceSpec, nodes: list[Node]) -> int:
    """Replicas that nodes could hold if nothing else ran there."""
    spec = spec.with_part("resources", num_gpus=gpus_of_replica(spec.resources, nodes))
    return sum(requests_of(spec)[0].fit_on(node) for node in nodes)


def free_cores(spec: BatchInferenceSpec, timings: Timings) -> float:
    """Cores of the cluster that no stage holds, on average."""
    held = sum(timings.stages[stage].holding * knobs_of(spec, stage).num_cpus for stage in STAGES)
    return max(0.0, timings.cores - held)


def holds_gpus(spec: BatchInferenceSpec, timings: Timings) -> bool:
    """Whether replicas had GPUs, also where no driver tells how busy these were."""
    return bool(timings.stages["infer"].device or gpus_of_replica(spec.resources, timings.nodes))
