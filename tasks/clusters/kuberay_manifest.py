"""The RayCluster that is made for a run: a YAML file's, with name, labels and time of expiry."""

from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from tasks.errors import InvalidSpec, shown
from tasks.kinds.clusters import KubeRayCluster

GROUP, VERSION, PLURAL = "ray.io", "v1", "rayclusters"
OURS = {"app.kubernetes.io/managed-by": "prefect-ray-data"}
"""Label of all that is made for runs; nothing without it is ever touched."""
RUN = "prefect-ray-data/run"
EXPIRES = "prefect-ray-data/expires"
"""Annotation: when the cluster may be deleted unless it is renewed before, as in RFC 3339."""
Manifest = dict[str, Any]


def name_of(run_id: str) -> str:
    """A run's cluster: whoever wants the same run asks for the same name.

    KubeRay takes up to 53 characters; a run's name has 25 at most.
    """
    return f"prefect-ray-data-{run_id}"


def expiry(seconds: float, now: datetime) -> dict[str, str]:
    """The annotation that says so long from now.

    Args:
        seconds: how long.
        now: the time, best by Kubernetes' clock: whoever deletes what has expired goes by that.
    """
    at = now.astimezone(UTC) + timedelta(seconds=seconds)
    return {EXPIRES: at.strftime("%Y-%m-%dT%H:%M:%SZ")}


def run_manifest(cluster: KubeRayCluster, run_id: str) -> Manifest:
    """The cluster of a run; when it expires is by this machine's clock, until it is renewed.

    Raises:
        InvalidSpec: the manifest cannot be read, or is none of a RayCluster.
    """
    manifest = load_manifest(cluster)
    given = manifest.get("metadata") or {}
    lives = expiry(cluster.ttl_seconds, datetime.now(UTC))
    manifest["metadata"] = {
        **given,
        "name": name_of(run_id),
        "namespace": cluster.namespace,
        "labels": {**(given.get("labels") or {}), **OURS, RUN: run_id},
        "annotations": {**(given.get("annotations") or {}), **lives},
    }
    if cluster.image is not None:
        for container in ray_containers(manifest):
            container["image"] = cluster.image
    return manifest


def manifest_file(cluster: KubeRayCluster) -> str:
    """Path of the manifest that a spec names, or of the project's own."""
    return cluster.manifest or str(files("deployments") / "cluster" / "raycluster.yaml")


def load_manifest(cluster: KubeRayCluster) -> Manifest:
    """The manifest that a spec names, or the project's own.

    Raises:
        InvalidSpec: it cannot be read, or is none of a RayCluster.
    """
    path = manifest_file(cluster)
    try:
        manifest = yaml.safe_load(Path(path).read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InvalidSpec.at("cluster.manifest", path, f"cannot be read: {error}") from error
    wanted = (f"{GROUP}/{VERSION}", "RayCluster")
    refuse_no_fields(path, {"": manifest or ""})  # an empty file holds nothing
    try:
        if (manifest["apiVersion"], manifest["kind"]) != wanted:
            raise InvalidSpec.at("cluster.manifest", path, f"is not {wanted[1]} of {wanted[0]}")
        if not all(container["name"] for container in ray_containers(manifest)):
            raise KeyError("name")
    except (KeyError, IndexError) as error:
        raise InvalidSpec.at(
            "cluster.manifest", path, f"is not a complete RayCluster: it lacks {error}"
        ) from error
    except (TypeError, AttributeError) as error:
        problem = (
            "is not a complete RayCluster: a group of its nodes has a list or text instead of "
        )
        raise InvalidSpec.at("cluster.manifest", path, f"{problem}fields: {error}") from error
    refuse_no_fields(path, parts_used(manifest))
    return dict(manifest)


def parts_used(manifest: Manifest) -> dict[str, Any]:
    """Parts that a run reads or adds to, by their names; what is not there is no matter."""
    metadata = manifest.get("metadata")
    parts = {"metadata": metadata, "spec.authOptions": manifest["spec"].get("authOptions")}
    if isinstance(metadata, dict):
        parts |= {f"metadata.{name}": metadata.get(name) for name in ("labels", "annotations")}
    each = {f"resources of {one['name']}": one.get("resources") for one in ray_containers(manifest)}
    return parts | each


def refuse_no_fields(path: str, parts: dict[str, Any]) -> None:
    """See that parts of a manifest have fields.

    Args:
        path: of the manifest.
        parts: what they hold by their names; of the whole it is empty.

    Raises:
        InvalidSpec: one is a list or a text.
    """
    for part, given in parts.items():
        if given is not None and not isinstance(given, dict):
            place = f"{part} is {shown(given)}" if part else f"it contains {shown(given)}"
            problem = f"is not a RayCluster: {place}, but it must have fields, such as name: value"
            raise InvalidSpec.at("cluster.manifest", path, problem)


def ray_containers(manifest: Manifest) -> list[dict[str, Any]]:
    """The container of each group that Ray runs in: for KubeRay that is the first."""
    spec = manifest["spec"]
    groups = [spec["headGroupSpec"], *(spec.get("workerGroupSpecs") or [])]
    return [group["template"]["spec"]["containers"][0] for group in groups]


def has_gpus(manifest: Manifest) -> bool:
    """Whether any of its nodes, there or yet to come, has a GPU: `nvidia.com/gpu` and the like."""
    options = [container.get("resources") or {} for container in ray_containers(manifest)]
    limits = [limit for each in options for limit in (each.get("limits") or {}).items()]
    return any(name.endswith("/gpu") and str(amount) != "0" for name, amount in limits)


def is_ours(found: Manifest) -> bool:
    """Whether a cluster was made for a run."""
    labels = found["metadata"].get("labels") or {}
    return OURS.items() <= labels.items()


def is_going(found: Manifest) -> bool:
    """Whether it is being deleted."""
    return "deletionTimestamp" in found["metadata"]


def was_ready(found: Manifest) -> bool:
    """Whether its head has ever been ready; where not, no job was ever sent there."""
    status = found.get("status") or {}
    met = {each["type"] for each in status.get("conditions") or [] if each["status"] == "True"}
    return status.get("state") == "ready" or bool(met & {"HeadPodReady", "RayClusterProvisioned"})


def state_of(found: Manifest) -> str:
    """What KubeRay says of it, for a person."""
    status = found.get("status") or {}
    unmet = [
        f"{each['type']}: {each.get('message') or each.get('reason')}"
        for each in status.get("conditions") or []
        if each["status"] != "True" and each["type"] in ("HeadPodReady", "RayClusterProvisioned")
    ]
    return (
        "; ".join(filter(None, [status.get("reason"), *unmet]))
        or "KubeRay reports nothing about it"
    )


def token_secret(found: Manifest) -> str | None:
    """The Secret that holds its token; None where it asks for none.

    KubeRay makes a Secret of the cluster's own name where the manifest names no other.
    """
    options = found["spec"].get("authOptions")
    if options is None or options.get("mode") == "disabled" or options.get("enableK8sTokenAuth"):
        return None
    return str(options.get("secretName") or found["metadata"]["name"])
