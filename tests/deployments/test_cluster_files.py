"""The files of deployments/cluster against the schemas they have to fit, and against each other."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tasks.clusters.kuberay_manifest import ray_containers, run_manifest
from tasks.kinds.clusters import KubeRayCluster
from tasks.ray_job.metrics import METRICS

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "deployments/cluster"
DOCKERFILE = (CLUSTER / "Dockerfile").read_text()
RAY = version("ray")
MODULES = {
    "PIL": "pillow",
    "huggingface_hub": "huggingface-hub",
    "lance": "pylance",
    "pydantic_core": "pydantic",
    "sklearn": "scikit-learn",
}
"""Packages whose modules have another name."""
NOT_FOR_WORKERS = {"demo", "dev", "kuberay", "testing"}
"""Extras that no kind needs."""


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CLUSTER / name).read_text())
    return found


def load_all(name: str) -> dict[tuple[str, str], dict[str, Any]]:
    documents = yaml.safe_load_all((CLUSTER / name).read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def test_the_launcher_takes_its_file() -> None:
    import ray.autoscaler

    schema = json.loads((Path(ray.autoscaler.__file__).parent / "ray-schema.json").read_text())
    config = load("cluster.yaml")
    jsonschema.validate(config, schema)
    assert config["head_node_type"] in config["available_node_types"]
    assert config["available_node_types"]["gpu"]["min_workers"] == 0


def test_a_head_that_starts_workers_with_a_profile_has_one_of_its_own() -> None:
    """The role that the launcher makes for a head without one may not pass theirs on."""
    config = load("cluster.yaml")
    types = {name: each["node_config"] for name, each in config["available_node_types"].items()}
    head = types.pop(config["head_node_type"])
    profiles = {each["IamInstanceProfile"]["Name"] for each in types.values()}
    named = {*profiles, head["IamInstanceProfile"]["Name"]}
    assert named - profiles, "a worker may start no machines"
    readme = (CLUSTER / "README.md").read_text()
    for name in named:
        assert f"`{name}`" in readme
    assert "iam:PassRole" in readme


def test_a_misspelt_field_would_be_noticed() -> None:
    with pytest.raises(jsonschema.ValidationError):
        validate_cluster({**load("raycluster.yaml"), "sepc": {}})
    cluster = load("raycluster.yaml")
    cluster["spec"]["workerGroupSpecs"][0]["minReplica"] = 0
    with pytest.raises(jsonschema.ValidationError):
        validate_cluster(cluster)


def test_kuberay_takes_the_manifest_as_it_lies_here_and_as_runs_make_it() -> None:
    validate_cluster(load("raycluster.yaml"))
    validate_cluster(run_manifest(KubeRayCluster(), "0123456789abcdef"))


def validate_cluster(cluster: dict[str, Any]) -> None:
    """Against KubeRay's own fields; what is in a pod's template is up to Kubernetes."""
    schema = (Path(__file__).parent / "raycluster_schema.json").read_text()
    jsonschema.validate(cluster, json.loads(schema))


def test_groups_and_resources_of_the_manifest() -> None:
    spec = load("raycluster.yaml")["spec"]
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["enableInTreeAutoscaling"] is True
    groups = {group["groupName"]: group for group in spec["workerGroupSpecs"]}
    assert set(groups) == {"cpu", "gpu"}
    # Idle workers go by themselves, down to none.
    assert {(g["replicas"], g["minReplicas"]) for g in groups.values()} == {(0, 0)}
    containers = ray_containers({"spec": spec})
    assert [each["name"] for each in containers] == ["ray-head", "ray-worker", "ray-worker"]
    for container in containers:
        assert container["resources"]["requests"] == container["resources"]["limits"]
    gpu = groups["gpu"]["template"]["spec"]
    assert gpu["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert gpu["tolerations"][0]["key"] == "nvidia.com/gpu"
    # The autoscaler's second version asks for it.
    pods = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    assert {group["template"]["spec"]["restartPolicy"] for group in pods} == {"Never"}


def test_one_ray_and_one_image_everywhere() -> None:
    pin = re.search(r"^ray==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    base = re.search(r"^FROM rayproject/ray:(\S+?)-(py\d+)-gpu$", DOCKERFILE, re.MULTILINE)
    built = re.search(r"-t (\S+) \.$", DOCKERFILE, re.MULTILINE)
    assert pin
    assert base
    assert built
    assert {pin[1], base[1], load("raycluster.yaml")["spec"]["rayVersion"]} == {RAY}
    assert (base[2], built[1]) == ("py311", f"prefect-ray-data-worker:{RAY}-py311")
    images = {each["image"] for each in ray_containers(load("raycluster.yaml"))}
    assert images | {load("cluster.yaml")["docker"]["image"]} == {built[1]}


@pytest.mark.parametrize(
    ("extras", "older"),
    [("vllm<0.30", {"fastapi", "numpy", "protobuf"}), ("onnxruntime av", set())],
)
def test_an_image_with_vllm_takes_what_vllm_goes_with(
    extras: str, older: set[str], tmp_path: Path
) -> None:
    """The line that installs, without pip. That the rest of the pins go with it pip has said."""
    line = re.search(r"^RUN (case .*\$EXTRAS)$", DOCKERFILE, re.MULTILINE | re.DOTALL)
    assert line
    copy = Path(shutil.copy(ROOT / "constraints.txt", tmp_path))
    code = 'pip() { echo "$@"; }; ' + line[1].replace("/tmp/", f"{tmp_path}/")
    done = subprocess.run(["sh", "-c", code], env={**os.environ, "EXTRAS": extras}, check=True)
    assert done.returncode == 0
    pins = [(ROOT / "constraints.txt").read_text(), copy.read_text()]
    before, after = ({each.split("==")[0] for each in text.splitlines()} for text in pins)
    assert before - after == older


def test_the_image_has_all_that_the_shipped_code_imports() -> None:
    lines = (CLUSTER / "worker-requirements.txt").read_text().splitlines()
    there = {line for line in lines if line and not line.startswith("#")}
    tasks = ROOT / "tasks"
    shipped = [p for part in ("ray_job", "kinds", "protocol") for p in (tasks / part).rglob("*.py")]
    needed = {
        MODULES.get(module, module)
        for path in [
            *shipped,
            *(tasks / f"{each}.py" for each in ("spec", "errors", "requirements")),
        ]
        for module in imported(path)
        if module not in sys.stdlib_module_names
    }
    # s3fs is found by name, through fsspec, and tzdata by zoneinfo; Ray is in the base image.
    assert needed - {"tasks", "ray"} - of_extras() | {"s3fs", "tzdata"} == there
    pins = (ROOT / "constraints.txt").read_text().lower().replace("_", "-").splitlines()
    assert there <= {line.split("==")[0] for line in pins}


def of_extras() -> set[str]:
    """Packages of the kinds' extras: whoever uses such a kind has them put into the image."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].items()
    wanted = [each for name, given in extras if name not in NOT_FOR_WORKERS for each in given]
    return {re.split(r"[\[<>=]", each)[0] for each in wanted}


def imported(path: Path) -> set[str]:
    """Top-level names of the modules that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module))
    return {name.split(".")[0] for name in names}


def test_the_dashboard_names_only_metrics_that_there_are() -> None:
    dashboard = json.loads((CLUSTER / "grafana.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    variables = dashboard["templating"]["list"]
    asked += [each["query"]["query"] for each in variables if each["type"] == "query"]
    names = {name for expression in asked for name in re.findall(r"\bray_\w+", expression)}
    assert names == {f"ray_{name}_total" for name in METRICS}
    labels = {label for each in asked for label in re.findall(r"(\w+)=~?\"", each)}
    assert labels == {"run_name", "run_id", "stage"}
    used = {name for each in asked for name in re.findall(r"\$(\w+)", each)}
    assert used - {"__rate_interval"} == {each["name"] for each in variables} - {"datasource"}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_reaper_is_what_the_config_map_holds() -> None:
    kustomization = load("kustomization.yaml")
    (config,) = kustomization["configMapGenerator"]
    cron = load_all("reaper.yaml")["CronJob", "prefect-ray-data-reaper"]
    pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,), (volume,) = pod["containers"], pod["volumes"]
    assert volume["configMap"]["name"] == config["name"]
    mount = container["volumeMounts"][0]["mountPath"]
    assert container["command"] == ["python", f"{mount}/{config['files'][0]}"]
    for name in (*kustomization["resources"], *config["files"]):
        assert (CLUSTER / name).is_file()
    assert ("ServiceAccount", pod["serviceAccountName"]) in load_all("rbac.yaml")
