"""The reaper, and what accounts may do, against the stand-in for Kubernetes."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployments.cluster import reaper
from tasks.clusters.kuberay import KubeRay
from tasks.clusters.kuberay_manifest import EXPIRES, expiry, name_of
from tasks.kinds.clusters import KubeRayCluster
from tests.clusters.kubernetes_api import NAMESPACE, TOKEN, Kubernetes

RBAC = Path(__file__).parents[2] / "deployments/cluster/rbac.yaml"
EXPIRED = expiry(-1, datetime.now(UTC))
VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}


def reap(held: Kubernetes) -> int:
    """One round; how it ended."""
    return reaper.reap(f"{held.url}/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters", TOKEN)


def made(held: Kubernetes, fields: dict[str, Any], run_id: str) -> dict[str, Any]:
    """A cluster of a run; its metadata."""
    KubeRay(KubeRayCluster(**fields)).make(run_id, time.monotonic())
    meta: dict[str, Any] = held.clusters[name_of(run_id)]["metadata"]
    return meta


def test_what_has_expired_is_deleted_and_nothing_else(
    kube: Kubernetes, fields: dict[str, Any]
) -> None:
    made(kube, fields, "live")
    made(kube, fields, "dead")["annotations"].update(EXPIRED)
    made(kube, fields, "silent")["annotations"].clear()
    made(kube, fields, "garbled")["annotations"][EXPIRES] = "soon"
    stranger = made(kube, fields, "stranger")
    stranger["annotations"].update(EXPIRED)
    stranger["labels"].clear()
    assert reap(kube) == 0
    gone = {n for n, c in kube.clusters.items() if "deletionTimestamp" in c["metadata"]}
    assert gone == {name_of("dead")}
    assert reap(kube) == 0
    assert kube.count("DELETE") == 1


def test_what_is_renewed_at_the_last_moment_stays(
    kube: Kubernetes, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made(kube, fields, "late")

    def renewed_meanwhile(*_: Any) -> bool:
        KubeRay(KubeRayCluster(**fields)).renew("late")
        return True

    monkeypatch.setattr(reaper, "has_expired", renewed_meanwhile)
    assert reap(kube) == 0
    assert kube.count("DELETE") == 1
    assert "deletionTimestamp" not in kube.clusters[name_of("late")]["metadata"]


@pytest.mark.parametrize("hours", [-3, 3])
def test_whether_a_cluster_has_expired_is_told_by_kubernetes_clock_alone(
    kube: Kubernetes, fields: dict[str, Any], hours: float
) -> None:
    """Whoever follows a run, or looks for what has expired, may be hours off."""
    kube.clock_ahead = hours * 3600
    made(kube, fields, "live")
    KubeRay(KubeRayCluster(**fields)).renew("live")
    assert reap(kube) == 0
    assert kube.count("DELETE") == 0
    kube.clock_ahead += 1.01 * KubeRayCluster(**fields).ttl_seconds
    assert reap(kube) == 0
    assert "deletionTimestamp" in kube.clusters[name_of("live")]["metadata"]


def test_what_cannot_be_deleted_fails_the_job(kube: Kubernetes, fields: dict[str, Any]) -> None:
    made(kube, fields, "dead")["annotations"].update(EXPIRED)
    kube.refusals = {"DELETE": [403]}
    assert reap(kube) == 1


def test_the_accounts_may_do_what_is_done_and_no_more(
    kube: Kubernetes, fields: dict[str, Any]
) -> None:
    roles = {
        each["metadata"]["name"]: {r["resources"][0]: set(r["verbs"]) for r in each["rules"]}
        for each in yaml.safe_load_all(RBAC.read_text())
        if each["kind"] == "Role"
    }
    kube.head_token = "secret-token"
    cluster = KubeRay(KubeRayCluster(**fields))
    cluster.make("run", time.monotonic())
    found = cluster.api.find(name_of("run"))
    assert found
    cluster.jobs(found)
    cluster.renew("run")
    cluster.release("run")
    assert done(kube) == roles["prefect-ray-data"]
    kube.seen.clear()
    made(kube, fields, "dead")["annotations"].update(EXPIRED)
    kube.seen.clear()
    reap(kube)
    assert done(kube) == roles["prefect-ray-data-reaper"]


def done(held: Kubernetes) -> dict[str, set[str]]:
    """Verbs of the requests so far, by resource."""
    verbs: dict[str, set[str]] = {}
    for method, target in held.seen:
        resource = "secrets" if "/secrets/" in target else "rayclusters"
        verb = VERBS.get(method) or ("list" if "?" in target else "get")
        verbs.setdefault(resource, set()).add(verb)
    return verbs
