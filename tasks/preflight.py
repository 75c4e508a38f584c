"""Finds what is wrong with a spec before anything expensive starts."""

import os
import re
import sys
from importlib.metadata import version
from pathlib import Path

import psutil

from tasks.clusters.choose import api_of
from tasks.errors import InvalidSpec
from tasks.kinds.places import check_sink, check_source
from tasks.ray_job.room import Node, refuse_unmet
from tasks.spec import BatchInferenceSpec, LocalCluster, RayJobsCluster


def check_spec(spec: BatchInferenceSpec) -> dict[str, str]:
    """Check places, steps, model and resources; return the digests of weights and code.

    Raises:
        InvalidSpec: names the field, what was given, and the way out.
        Unreachable: the storage of the source or the sink does not answer.
    """
    working_dir = Path(spec.environment.working_dir).resolve()
    if not working_dir.is_dir():
        raise InvalidSpec.at("environment.working_dir", str(working_dir), "is not a folder")
    if str(working_dir) not in sys.path:
        sys.path.insert(0, str(working_dir))
    check_source(spec.source)
    check_sink(spec.sink)
    for step in spec.steps:
        step.check()
    spec.model.check()
    if isinstance(spec.cluster, LocalCluster) and spec.cluster.address is None:
        refuse_unmet(spec, [this_machine()], "this machine")
    if isinstance(spec.cluster, RayJobsCluster):
        check_cluster(spec, spec.cluster)
    code = [*(step.code_digest() for step in spec.steps), spec.model.code_digest()]
    return {"model": spec.model.fingerprint(), "code": "-".join(filter(None, code))}


def check_cluster(spec: BatchInferenceSpec, cluster: RayJobsCluster) -> None:
    """See that a cluster answers, lets us in, has our Ray, and has room or can make some.

    Raises:
        InvalidSpec: its Ray is another, or no node can ever hold a stage.
        Unreachable: it does not answer, or does not let us in.
    """
    api = api_of(cluster)
    ours, theirs = version("ray"), api.version()["ray_version"]
    if ours.split(".")[:2] != theirs.split(".")[:2]:
        raise InvalidSpec.at(
            "cluster", api.address, f"runs Ray {theirs}, and this project needs {ours}"
        )
    if cluster.wait_for_nodes_seconds == 0:
        resources = [node["resources_total"] for node in api.nodes()]
        nodes = [{**each, "memory": each.get("memory", 0.0) / (1 << 30)} for each in resources]
        refuse_unmet(spec, nodes, "the largest node of the cluster")


def this_machine() -> Node:
    """What this machine has."""
    memory = psutil.virtual_memory().total / (1 << 30)
    return {"CPU": float(os.cpu_count() or 1), "GPU": float(count_gpus()), "memory": memory}


def count_gpus() -> int:
    """GPUs that this process may use, without loading torch or Ray."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([each for each in visible.split(",") if each.strip() not in ("", "-1")])
    devices = Path("/dev").glob("nvidia*")
    return sum(bool(re.fullmatch(r"nvidia\d+", path.name)) for path in devices)
