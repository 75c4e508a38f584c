"""Finds what is wrong with a spec before anything expensive starts."""

import os
import re
import sys
from pathlib import Path

import psutil

from tasks.errors import InvalidSpec
from tasks.kinds.places import check_sink, check_source
from tasks.spec import BatchInferenceSpec, LocalCluster


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
        check_machine(spec)
    code = [*(step.code_digest() for step in spec.steps), spec.model.code_digest()]
    return {"model": spec.model.fingerprint(), "code": "-".join(filter(None, code))}


def check_machine(spec: BatchInferenceSpec) -> None:
    """See that this machine can hold what the stages ask for.

    Raises:
        InvalidSpec: names the field and what there is.
    """
    cores, gpus = os.cpu_count() or 1, count_gpus()
    resources, stages = spec.resources, spec.stages
    replicas = resources.min_replicas
    asked: list[tuple[str, float, float, str]] = [
        ("resources.num_cpus", resources.num_cpus * replicas, cores, "CPU cores"),
        ("resources.memory_gb", (resources.memory_gb or 0) * replicas, memory_gib(), "GiB"),
        ("stages.read.num_cpus", stages.read.num_cpus, cores, "CPU cores"),
        ("stages.preprocess.num_cpus", stages.preprocess.num_cpus, cores, "CPU cores"),
        ("stages.write.num_cpus", stages.write.num_cpus, cores, "CPU cores"),
    ]
    if resources.num_gpus != "auto":
        asked.append(("resources.num_gpus", resources.num_gpus * replicas, gpus, "GPUs"))
    for field, wanted, there, unit in asked:
        if wanted > there:
            each = f" for {replicas} replicas" if replicas > 1 and "resources" in field else ""
            raise InvalidSpec.at(
                field,
                wanted,
                f"{unit} are asked for{each}, and this machine has {there:g}: ask for less, or "
                "set cluster to one that has them",
            )


def memory_gib() -> float:
    """Memory of this machine in GiB."""
    return psutil.virtual_memory().total / (1 << 30)


def count_gpus() -> int:
    """GPUs that this process may use, without loading torch or Ray."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([each for each in visible.split(",") if each.strip() not in ("", "-1")])
    devices = Path("/dev").glob("nvidia*")
    return sum(bool(re.fullmatch(r"nvidia\d+", path.name)) for path in devices)
