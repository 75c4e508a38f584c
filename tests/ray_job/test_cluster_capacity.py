"""Whether nodes have room for what a spec asks for."""

from typing import Any

import pytest

from tasks.errors import InvalidSpec
from tasks.ray_job.cluster_capacity import (
    Node,
    cores_side_by_side,
    gpus_of_replica,
    refuse_crowded,
    refuse_unmet,
)
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import parse_spec

CPU_NODE: Node = {"CPU": 8.0, "memory": 16.0}
GPU_NODE: Node = {"CPU": 4.0, "memory": 32.0, "GPU": 2.0, "accelerator_type:A100": 1.0}
CLUSTER = [CPU_NODE, GPU_NODE, GPU_NODE]


def spec_of(stages: dict[str, Any] | None = None, **resources: Any) -> BatchInferenceSpec:
    return parse_spec(
        {
            "source": {"kind": "parquet", "path": "/in"},
            "model": {"kind": "python", "class": "a:B"},
            "sink": {"kind": "parquet", "path": "/out"},
            "resources": resources,
            "stages": stages or {},
        }
    )


FITS: dict[str, dict[str, Any]] = {
    "the defaults": {},
    "all cores of a node": {"num_cpus": 8},
    "half a core": {"num_cpus": 0.5},
    "all GPUs of a node": {"num_gpus": 2},
    "a GPU for each replica": {"num_gpus": 1, "min_replicas": 4},
    "half a GPU for each replica": {"num_gpus": 0.5, "min_replicas": 8, "num_cpus": 0.5},
    "as many GPUs as there are": {"num_gpus": "auto", "min_replicas": 16},
    "a GPU of a kind": {"accelerator_type": "A100", "num_gpus": 1, "min_replicas": 4},
    "memory": {"memory_gb": 32},
    "memory for each replica": {"memory_gb": 8, "min_replicas": 10},
}


@pytest.mark.parametrize("resources", FITS.values(), ids=FITS)
def test_there_is_room(resources: dict[str, Any]) -> None:
    refuse_unmet(spec_of(**resources), CLUSTER, "the largest node")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "more cores than any node has": (
        {"num_cpus": 9},
        "resources.num_cpus: 9.0 CPU cores are requested, but the largest node has 8",
    ),
    "more GPUs than any node has, though all have": (
        {"num_gpus": 3},
        "resources.num_gpus: 3.0 GPUs are requested, but the largest node has 2",
    ),
    "more memory": (
        {"memory_gb": 33},
        "resources.memory_gb: 33.0 GiB of memory are requested, but the largest node has 32",
    ),
    "another GPU": (
        {"accelerator_type": "H100"},
        "resources.accelerator_type: 'H100' is requested, but the largest node has 0",
    ),
    "replicas that cannot all run": (
        {"num_gpus": 1, "min_replicas": 5},
        "resources.min_replicas: 5 is requested, each replica with 1 CPU core, 1 GPU, but the "
        "largest node has room for 4",
    ),
    "a remainder on each node": (
        {"num_cpus": 3, "min_replicas": 5},
        "resources.min_replicas: 5 is requested, each replica with 3 CPU cores, but the largest "
        "node has room for 4",
    ),
    "together what no single node has": (
        {"num_gpus": 1, "num_cpus": 8},
        "resources.min_replicas: 1 is requested, each replica with 8 CPU cores, 1 GPU, but the "
        "largest node has room for 0",
    ),
}


@pytest.mark.parametrize(("resources", "message"), REFUSED.values(), ids=REFUSED)
def test_there_is_no_room(resources: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        refuse_unmet(spec_of(**resources), CLUSTER, "the largest node")
    assert str(caught.value).startswith(message), str(caught.value)


@pytest.mark.parametrize("stage", ["read", "preprocess", "write"])
def test_every_stage_needs_room(stage: str) -> None:
    with pytest.raises(InvalidSpec, match=rf"^stages\.{stage}\.num_cpus: 9"):
        refuse_unmet(spec_of({stage: {"num_cpus": 9}}), CLUSTER, "the largest node")


def test_nothing_fits_where_there_is_no_node() -> None:
    with pytest.raises(InvalidSpec, match=r"^resources\.num_cpus: 1 .* has 0: "):
        refuse_unmet(spec_of(), [], "the cluster")


def test_tenths_of_a_core_add_up() -> None:
    refuse_unmet(spec_of(num_cpus=0.1, min_replicas=10), [{"CPU": 1.0}], "this machine")


CROWDED: dict[str, tuple[dict[str, Any], list[Node], float]] = {
    "one core": ({}, [{"CPU": 1.0}], 1.5),
    "as many replicas as cores": ({"min_replicas": 16}, CLUSTER, 16.5),
    "cores in parts": ({"min_replicas": 2, "num_cpus": 1.75}, [{"CPU": 2.0}, {"CPU": 2.0}], 4),
}


@pytest.mark.parametrize(("resources", "nodes", "wanted"), CROWDED.values(), ids=CROWDED)
def test_replicas_that_leave_no_core_to_others_are_refused(
    resources: dict[str, Any], nodes: list[Node], wanted: float
) -> None:
    spec = spec_of(**resources)
    refuse_unmet(spec, nodes, "the largest node")  # each fits, but not all together
    with pytest.raises(InvalidSpec, match=rf"resources.num_cpus: .* {wanted:g} CPU cores"):
        refuse_crowded(spec, nodes)
    refuse_crowded(spec, [*nodes, {"CPU": 0.5}])
    refuse_crowded(spec, nodes, ("read", "preprocess"))  # no replica is there


def test_cores_are_no_use_in_parts() -> None:
    nodes = [{"CPU": 2.0}, {"CPU": 2.0}]
    with pytest.raises(InvalidSpec, match="the cluster has 4, in nodes that cannot hold them: "):
        refuse_crowded(spec_of(min_replicas=2, num_cpus=1.75), nodes)
    refuse_crowded(spec_of(min_replicas=2, num_cpus=1.5), nodes)
    with pytest.raises(InvalidSpec, match="the cluster has 4, in nodes that cannot hold them: "):
        refuse_crowded(spec_of({"read": {"num_cpus": 3}}), nodes)
    refuse_crowded(spec_of(min_replicas=2, num_gpus=1), [GPU_NODE])


def test_only_stages_with_something_to_do_take_cores() -> None:
    steps = spec_of(stages={"preprocess": {"num_cpus": 3}})
    assert cores_side_by_side(steps) == 1.5
    steps = steps.model_copy(update={"steps": [{"kind": "select", "columns": ["a"]}]})
    assert cores_side_by_side(steps) == 4


def test_a_replica_has_a_gpu_where_a_node_has_one() -> None:
    asked = spec_of(num_gpus="auto").resources
    assert gpus_of_replica(asked, CLUSTER) == 1.0
    assert gpus_of_replica(asked, [CPU_NODE]) == gpus_of_replica(asked, []) == 0.0
    assert gpus_of_replica(spec_of(num_gpus=2).resources, [CPU_NODE]) == 2.0
