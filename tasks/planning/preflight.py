"""Finds what is wrong with a spec before anything expensive starts."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path

from tasks.access import access_told
from tasks.clusters.choose import api_of, max_gpus_of, resources_on
from tasks.clusters.kuberay import KubeRay
from tasks.clusters.kuberay_capacity import refuse_beyond_manifest
from tasks.clusters.own_ray import reached
from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.kinds.clusters import InlineCluster, KubeRayCluster, LocalCluster, RayJobsCluster
from tasks.kinds.models.model import refuse_dtype
from tasks.kinds.output_overlap import check_apart
from tasks.kinds.places import check_sink, check_source
from tasks.kinds.user_modules import put_first
from tasks.machine import cores
from tasks.own_process import (
    lacking_inline,
    memory_gib,
    refuse_full_disk,
    refuse_lacking,
    refuse_lost_folder,
)
from tasks.ray_job.as_planned import code_digests
from tasks.ray_job.cluster_capacity import (
    Node,
    gpus_of_replica,
    in_gib,
    refuse_crowded,
    refuse_unmet,
)
from tasks.ray_job.gpu_queue import refuse_beyond
from tasks.spec import BatchInferenceSpec
from tasks.temporary_folder import own_folder


@dataclass(frozen=True)
class Check:
    """One thing to find out about a spec."""

    name: str
    run: Callable[[BatchInferenceSpec], str]
    """Says what was found; raises BatchInferenceError with field, value and way out."""


def check_spec(spec: BatchInferenceSpec) -> dict[str, str]:
    """Check all that can be checked from here; return the digests of weights and code.

    Raises:
        InvalidSpec: names the field, what was given, and the way out.
        Unreachable: a storage or the cluster does not answer, or this user may not read something.
    """
    with access_told(spec):
        for check in CHECKS:
            check.run(spec)
        return {"model": spec.model.fingerprint(), "code": code_digests(spec)}


def check_code(spec: BatchInferenceSpec) -> str:
    """See that the folder of the user's modules is there, and put it on the Python path.

    A spec that needs none of them may come from another machine, with the folder that it had there.
    """
    working_dir = Path(spec.environment.working_dir).resolve()
    if not working_dir.is_dir():
        if not spec.runs_own_code:
            return "none"
        problem = (
            "is not a folder on this machine; it is relative to the spec's file, for a "
            "deployment to where that was created: set it to the folder of your modules on the "
            "worker"
        )
        raise InvalidSpec.at("environment.working_dir", str(working_dir), problem)
    put_first(str(working_dir))
    return str(working_dir)


def check_steps(spec: BatchInferenceSpec) -> str:
    """See that what the steps name is there."""
    for step in spec.steps:
        step.check()
    return ", ".join(step.kind for step in spec.steps) or "none"


def check_model(spec: BatchInferenceSpec) -> str:
    """See that the model is there and is of the task's kind, and can have what is asked for it."""
    refuse_dtype(spec.resources.dtype, spec.model.own_precision)
    refuse_fewer_gpus(spec)
    spec.model.check()
    return spec.model.kind


def refuse_fewer_gpus(spec: BatchInferenceSpec) -> None:
    """See that a replica gets as many GPUs as its engine is to use; none is for CPUs.

    Raises:
        InvalidSpec: it gets fewer.
    """
    asked, least = spec.resources.num_gpus, spec.model.least_gpus
    given = 1 if asked == "auto" else asked
    if given and least > max(1, given):
        problem = f"gives a replica fewer GPUs than model.engine_kwargs uses: set it to {least}"
        raise InvalidSpec.at("resources.num_gpus", asked, problem)


def check_places(spec: BatchInferenceSpec) -> str:
    """See that the storages of source and sink answer, and that the source is there."""
    check_source(spec.source)
    kept = spec.stages.preprocess
    check_sink(spec.sink, kept.path if kept.materialize else None)
    check_apart(spec.source, spec.sink)
    return f"{', '.join(spec.source.paths)} and {spec.sink.path} can be reached"


def check_cluster(spec: BatchInferenceSpec) -> str:
    """See that the cluster answers, lets us in, has our Ray, and has room or can make some.

    Raises:
        InvalidSpec: its Ray is another, or no node can ever hold a stage, or replicas need more
            GPUs than its jobs may hold; this process or machine lacks what is asked for.
        Unreachable: it does not answer, or does not let us in.
    """
    cluster = reached(spec.cluster)
    if isinstance(cluster, InlineCluster | LocalCluster):
        refuse_lacking(spec)
    if isinstance(cluster, LocalCluster):
        refuse_lost_folder()
        own_folder()
    if isinstance(cluster, LocalCluster) and cluster.address is None:
        refuse_full_disk(spec)
        machine = this_machine(names_gpu=spec.resources.accelerator_type is not None)
        refuse_unmet(spec, [machine], "this machine")
        return (
            f"this machine: {counted(machine['CPU'], 'CPU core')}, {counted(machine['GPU'], 'GPU')}"
        )
    if isinstance(cluster, KubeRayCluster):
        found = KubeRay(cluster).check()
        settled = spec.model_copy(update={"resources": resources_on(spec)})
        refuse_beyond_manifest(settled, cluster)
        return found
    if not isinstance(cluster, RayJobsCluster):
        return "this process" if isinstance(cluster, InlineCluster) else f"Ray at {cluster.address}"
    api = api_of(cluster)
    ours, theirs = version("ray"), api.version()["ray_version"]
    if ours.split(".")[:2] != theirs.split(".")[:2]:
        raise InvalidSpec.at(
            "cluster", api.shown, f"runs Ray {theirs}, but this project needs {ours}"
        )
    nodes = [in_gib(node["resources_total"]) for node in api.nodes()]
    if cluster.wait_for_nodes_seconds == 0:
        refuse_unmet(spec, nodes, "the largest node of the cluster")
        refuse_crowded(spec, nodes)
    num_gpus = sum(node.get("GPU", 0.0) for node in nodes)
    found = (
        f"Ray {theirs} at {api.shown}: {counted(len(nodes), 'node')}, {counted(num_gpus, 'GPU')}"
    )
    if (limit := max_gpus_of(cluster)) is not None:
        refuse_beyond(spec, limit, gpus_of_replica(spec.resources, nodes))
        found += f", of which jobs may hold {limit:g}"
    if spec.resources.num_gpus == "auto" and not num_gpus and cluster.wait_for_nodes_seconds:
        found += "; num_gpus: auto uses none, set a number to have nodes with GPUs added"
    return found


CHECKS = (
    Check("places", check_places),
    Check("code", check_code),
    Check("steps", check_steps),
    Check("model", check_model),
    Check("cluster", check_cluster),
)


def this_machine(*, names_gpu: bool = False) -> Node:
    """What this machine has.

    Args:
        names_gpu: whether to ask what its GPUs are, which imports Ray.
    """
    num_cpus, gpus = float(cores()), float(count_gpus())
    node = {"CPU": num_cpus, "GPU": gpus, "memory": memory_gib()}
    return node | gpu_of_this_machine() if gpus and names_gpu else node


def gpu_of_this_machine() -> Node:
    """Its GPUs by the name that Ray, once it is started, gives the node; nothing where none."""
    from ray._private.accelerators import NvidiaGPUAcceleratorManager

    name = NvidiaGPUAcceleratorManager.get_current_node_accelerator_type()
    return {f"accelerator_type:{name}": 1.0} if name else {}


def could_run_inline(spec: BatchInferenceSpec) -> bool:
    """Whether this process has all that the spec asks for, and there is no GPU to use instead."""
    has_gpu_for_it = spec.resources.num_gpus == "auto" and count_gpus()
    return not has_gpu_for_it and not lacking_inline(spec)


def count_gpus() -> int:
    """GPUs that this process may use, without loading torch or Ray."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        # CUDA knows none after the first that it cannot read, such as -1.
        names = (each.strip() for each in visible.split(","))
        return len([*takewhile(re.compile(r"\d|GPU-|MIG-").match, names)])
    devices = Path("/dev").glob("nvidia*")
    return sum(bool(re.fullmatch(r"nvidia\d+", path.name)) for path in devices)
