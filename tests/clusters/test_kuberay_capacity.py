"""What no node of a RayCluster's manifest could hold is refused before a cluster is made."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.clusters.kuberay_capacity import refuse_beyond_manifest
from tasks.clusters.kuberay_manifest import load_manifest
from tasks.errors import InvalidSpec
from tasks.kinds.clusters import KubeRayCluster
from tasks.planning.preflight import check_cluster
from tasks.spec import BatchInferenceSpec
from tests.clusters.kubernetes_api import Kubernetes
from tests.flows.conftest import spec_of

Fields = dict[str, Any]
A100 = "accelerator_type:A100"


def asking(tmp_path: Path, cluster: Fields | None = None, **resources: Any) -> BatchInferenceSpec:
    cluster = {"kind": "kuberay", **(cluster or {})}
    return spec_of(tmp_path, cluster=cluster, resources=resources)


def changed(tmp_path: Path, change: Callable[[Fields], object]) -> Fields:
    """A cluster by the shipped manifest after a change."""
    manifest = load_manifest(KubeRayCluster())
    change(manifest["spec"])
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(manifest))
    return {"manifest": str(file)}


def refuse(spec: BatchInferenceSpec) -> None:
    assert isinstance(spec.cluster, KubeRayCluster)
    refuse_beyond_manifest(spec, spec.cluster)


@pytest.mark.parametrize(
    "resources",
    [
        {"num_gpus": 1, "num_cpus": 8, "memory_gb": 32, "min_replicas": 4},
        {"num_gpus": 0.5, "num_cpus": 1, "min_replicas": 8},
        {"num_gpus": 0, "num_cpus": 8, "min_replicas": 11},
    ],
)
def test_what_the_shipped_manifest_has_room_for(resources: Fields, tmp_path: Path) -> None:
    refuse(asking(tmp_path, **resources))


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ({"num_gpus": 2}, r"^resources\.num_gpus: 2\.0 GPUs are requested, .* has 1:"),
        ({"num_gpus": 0, "num_cpus": 9}, r"^resources\.num_cpus: 9\.0 .* has 8:"),
        ({"num_gpus": 0, "memory_gb": 33}, r"^resources\.memory_gb: 33\.0 .* has 32:"),
        ({"num_gpus": 1, "min_replicas": 5}, r"^resources\.min_replicas: 5 .* has room for 4:"),
        ({"num_gpus": 0, "num_cpus": 8, "min_replicas": 12}, r"^resources\.num_cpus: 8\.0 .* 12"),
    ],
)
def test_what_it_has_none_for_is_named(resources: Fields, said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match=said) as raised:
        refuse(asking(tmp_path, **resources))
    assert "raycluster.yaml" in str(raised.value)


def test_a_check_refuses_it_and_makes_nothing(
    kube: Kubernetes, fields: Fields, tmp_path: Path
) -> None:
    # `auto` is a GPU here, and nodes that have one have no 16 cores.
    cluster = changed(tmp_path, lambda spec: limit(spec["workerGroupSpecs"][0], cpu="16"))
    spec = asking(tmp_path, {**fields, **cluster}, num_gpus="auto", num_cpus=16)
    with pytest.raises(InvalidSpec, match=r"^resources\.min_replicas: 1 .* 1 GPU.* room for 0"):
        check_cluster(spec)
    assert kube.clusters == {}


def limit(group: Fields, **amounts: str) -> None:
    """Give the nodes of a group other amounts."""
    resources = group["template"]["spec"]["containers"][0]["resources"]
    for part in ("requests", "limits"):
        resources[part] |= amounts


def test_a_kind_of_gpu_must_be_said_where_no_node_is_there_to_say_it(tmp_path: Path) -> None:
    asked: Fields = {"num_gpus": 1, "accelerator_type": "A100"}
    with pytest.raises(InvalidSpec, match=r"^resources\.accelerator_type: 'A100' .* would add"):
        refuse(asking(tmp_path, **asked))

    def says(gpu: str) -> Callable[[Fields], object]:
        return lambda spec: spec["workerGroupSpecs"][1].update(resources={gpu: "1"})

    refuse(asking(tmp_path, changed(tmp_path, says(A100)), **asked))
    with pytest.raises(InvalidSpec, match=r'write resources: \{"accelerator_type:A100": "1"\}'):
        refuse(asking(tmp_path, changed(tmp_path, says("accelerator_type:L4")), **asked))


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["workerGroupSpecs"][1].update(replicas=1),
        lambda spec: spec["workerGroupSpecs"][1].update(minReplicas=1),
        lambda spec: spec["workerGroupSpecs"].pop(0),
    ],
)
def test_a_node_that_comes_anyway_says_itself_what_its_gpu_is(
    change: Callable[[Fields], object], tmp_path: Path
) -> None:
    refuse(asking(tmp_path, changed(tmp_path, change), num_gpus=1, accelerator_type="A100"))


@pytest.mark.parametrize(
    "resources",
    [{"limits": {"cpu": "8", "nvidia.com/mig-1g.5gb": "1"}}, {"claims": [{"name": "gpu"}]}],
)
def test_a_node_that_is_there_says_itself_what_its_devices_are(
    resources: Fields, tmp_path: Path
) -> None:
    def part(count: int) -> Callable[[Fields], object]:
        def give(spec: Fields) -> None:
            group = spec["workerGroupSpecs"][1]
            group |= {"minReplicas": count, "rayStartParams": {"num-cpus": "8"}}
            group["template"]["spec"]["containers"][0]["resources"] = resources

        return give

    refuse(asking(tmp_path, changed(tmp_path, part(1)), num_gpus=1))
    with pytest.raises(InvalidSpec, match=r"^resources\.num_gpus: 1\.0 GPUs .* has 0"):
        refuse(asking(tmp_path, changed(tmp_path, part(0)), num_gpus=1))


def test_a_group_that_says_no_bounds_has_those_of_kuberay(tmp_path: Path) -> None:
    """There may be any number of its nodes, and none need be there."""

    def forget(spec: Fields) -> None:
        for name in ("replicas", "minReplicas", "maxReplicas"):
            del spec["workerGroupSpecs"][1][name]

    cluster = changed(tmp_path, forget)
    refuse(asking(tmp_path, cluster, num_gpus=1, min_replicas=100))
    with pytest.raises(InvalidSpec, match=r"^resources\.num_gpus: 2\.0 GPUs"):
        refuse(asking(tmp_path, cluster, num_gpus=2))


def test_a_group_that_the_autoscaler_cannot_read(tmp_path: Path) -> None:
    """It would add no node to any group."""

    def forget(spec: Fields) -> None:
        del spec["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"]

    cluster = changed(tmp_path, forget)
    with pytest.raises(InvalidSpec, match=r"^cluster\.manifest: .*failed to detect `CPU`"):
        refuse(asking(tmp_path, cluster, num_gpus=0))


def test_nodes_of_a_cluster_that_does_not_grow_are_those_that_it_starts_with(
    tmp_path: Path,
) -> None:
    def fixed(spec: Fields) -> None:
        spec["enableInTreeAutoscaling"] = False
        spec["workerGroupSpecs"][1]["replicas"] = 2

    cluster = changed(tmp_path, fixed)
    refuse(asking(tmp_path, cluster, num_gpus=1, num_cpus=1, min_replicas=2))
    with pytest.raises(InvalidSpec, match=r"^resources\.min_replicas: 3 .* has room for 2:"):
        refuse(asking(tmp_path, cluster, num_gpus=1, num_cpus=1, min_replicas=3))

    def unsaid(spec: Fields) -> None:
        fixed(spec)
        del spec["workerGroupSpecs"][1]["template"]["spec"]["containers"][0]["resources"]
        spec["workerGroupSpecs"][1]["rayStartParams"] = None

    # Such a node says itself how many cores it has, once it is there.
    refuse(asking(tmp_path, changed(tmp_path, unsaid), num_gpus=0, num_cpus=64))
