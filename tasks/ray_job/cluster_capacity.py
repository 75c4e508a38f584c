"""Whether a cluster's nodes have room for what the stages ask for."""

from dataclasses import dataclass

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.machine import GIB
from tasks.ray_job.counts import STAGES
from tasks.ray_job.stage_functions import has_preprocessing
from tasks.resources import Resources
from tasks.spec import BatchInferenceSpec
from tasks.whole import whole

UNITS = {"CPU": "CPU core", "GPU": "GPU"}
WITHOUT_PLURAL = {"memory": "GiB of memory"}
Node = dict[str, float]
"""What a node has: CPU, GPU, memory in GiB, `accelerator_type:<name>`."""


def in_gib(resources: Node) -> Node:
    """A node's resources as Ray counts them, memory in GiB."""
    return {**resources, "memory": resources.get("memory", 0.0) / GIB}


@dataclass(frozen=True)
class Request:
    """What one worker of a stage asks for."""

    fields: dict[str, str]
    """The spec's field behind each resource."""
    resources: Node
    workers: int = 1
    """Workers that must run at the same time."""

    def fit_on(self, node: Node) -> int:
        """Workers that a node can hold."""
        wanted = {name: amount for name, amount in self.resources.items() if amount > 0}
        if not wanted:
            return self.workers
        return whole(min(node.get(name, 0.0) / amount for name, amount in wanted.items()))


def gpus_of_replica(resources: Resources, nodes: list[Node]) -> float:
    """GPUs of one replica: as asked for, or one where a node has any."""
    if resources.num_gpus != "auto":
        return resources.num_gpus
    return float(min(1.0, max((node.get("GPU", 0.0) for node in nodes), default=0.0)))


def requests_of(spec: BatchInferenceSpec) -> list[Request]:
    """What the stages ask for."""
    resources, stages = spec.resources, spec.stages
    infer = Request(
        fields={
            "CPU": "resources.num_cpus",
            "GPU": "resources.num_gpus",
            "memory": "resources.memory_gb",
            f"accelerator_type:{resources.accelerator_type}": "resources.accelerator_type",
        },
        resources={
            "CPU": resources.cores,
            # Automatic: as many as there are.
            "GPU": 0.0 if resources.num_gpus == "auto" else resources.num_gpus,
            "memory": resources.memory_gb or 0.0,
            # Ray gives each node a whole one, and each worker asks for a part.
            f"accelerator_type:{resources.accelerator_type}": 0.001
            if resources.accelerator_type
            else 0.0,
        },
        workers=resources.min_replicas,
    )
    others = {"read": stages.read, "preprocess": stages.preprocess, "write": stages.write}
    return [infer] + [
        Request({"CPU": f"stages.{stage}.num_cpus"}, {"CPU": options.num_cpus})
        for stage, options in others.items()
    ]


def refuse_unmet(spec: BatchInferenceSpec, nodes: list[Node], whose: str) -> None:
    """See that each stage's request fits some node.

    Args:
        spec: asks.
        nodes: what there is.
        whose: for the message, as in `this machine`.

    Raises:
        InvalidSpec: names the field, what was asked for, and what there is.
    """
    for request in requests_of(spec):
        for name, wanted in request.resources.items():
            most = max((node.get(name, 0.0) for node in nodes), default=0.0)
            if wanted > most:
                raise InvalidSpec.at(
                    request.fields[name],
                    spec.resources.accelerator_type if ":" in name else wanted,
                    f"{missing(name)}, but {whose} has {most:g}: ask for less, or set cluster to "
                    "one that has them",
                )
        room = sum(request.fit_on(node) for node in nodes)
        if room < request.workers:
            asked = ", ".join(
                in_units(name, amount) for name, amount in request.resources.items() if amount
            )
            raise InvalidSpec.at(
                "resources.min_replicas",
                request.workers,
                f"is requested, each replica with {asked}, but {whose} has room for {room}: ask "
                "for less, or set cluster to one that has it",
            )


def refuse_crowded(
    spec: BatchInferenceSpec,
    nodes: list[Node],
    stages: tuple[str, ...] = STAGES,
    whose: str = "the cluster",
) -> None:
    """See that the stages can run side by side: replicas keep their cores until the job ends.

    Args:
        spec: asks.
        nodes: what there is.
        stages: those of the job.
        whose: for the message.

    Raises:
        InvalidSpec: beside the replicas no other stage would ever get a core.
    """
    if asked := crowding(spec, nodes, stages, whose):
        resources = spec.resources
        raise InvalidSpec.at(
            "resources.num_cpus",
            resources.cores,
            f"with resources.min_replicas {resources.min_replicas} and the other stages, {asked}: "
            "ask for parts of cores, such as resources.num_cpus=0.5 and "
            "stages.preprocess.num_cpus=0.5, or set cluster to one that has them",
        )


def crowding(
    spec: BatchInferenceSpec,
    nodes: list[Node],
    stages: tuple[str, ...],
    whose: str = "the cluster",
) -> str | None:
    """What stages ask for that cannot run side by side, and what there is; None where they can."""
    if "infer" not in stages or fit_side_by_side(spec, nodes, stages):
        return None
    wanted, there = cores_side_by_side(spec, stages), sum(node.get("CPU", 0.0) for node in nodes)
    split = ", in nodes that cannot hold them" if wanted <= there + 1e-6 else ""
    asked = counted(wanted, "CPU core")
    return f"{asked} must be free at the same time, but {whose} has {there:g}{split}"


def fit_side_by_side(spec: BatchInferenceSpec, nodes: list[Node], stages: tuple[str, ...]) -> bool:
    """Whether nodes can hold all replicas and, one of them, the largest worker beside."""
    infer, beside = requests_of(spec)[0], cores_beside(spec, stages)
    room = sum(infer.fit_on(node) for node in nodes)
    for node in nodes:
        left = {**node, "CPU": node.get("CPU", 0.0) - beside}
        has_room = whole(left["CPU"]) >= 0
        if has_room and room - infer.fit_on(node) + infer.fit_on(left) >= infer.workers:
            return True
    return False


def cores_side_by_side(spec: BatchInferenceSpec, stages: tuple[str, ...] = STAGES) -> float:
    """CPU cores without which a job would wait for ever: its replicas', and a worker's beside."""
    resources = spec.resources
    return resources.min_replicas * resources.cores + cores_beside(spec, stages)


def cores_beside(spec: BatchInferenceSpec, stages: tuple[str, ...] = STAGES) -> float:
    """CPU cores of the largest worker that is no replica."""
    options = spec.stages
    largest = max(options.read.num_cpus, options.write.num_cpus)
    return max(largest, options.preprocess.num_cpus * has_preprocessing(spec, stages))


def in_units(name: str, amount: float) -> str:
    """An amount of a resource."""
    if name in UNITS:
        return counted(amount, UNITS[name])
    return f"{amount:g} {WITHOUT_PLURAL.get(name, name)}"


def missing(name: str) -> str:
    """What is asked for of one node."""
    if name in UNITS:
        return f"{UNITS[name]}s are requested"
    if name in WITHOUT_PLURAL:
        return f"{WITHOUT_PLURAL[name]} are requested"
    return "is requested"
