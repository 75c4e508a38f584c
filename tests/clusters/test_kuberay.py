"""KubeRay's clusters against a stand-in for Kubernetes, by its official client over HTTP."""

import logging
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from flows.at_work import AtWork
from tasks.clusters import kuberay, kuberay_api
from tasks.clusters.choose import cluster_of, release, resources_on
from tasks.clusters.kuberay import KubeRay
from tasks.clusters.kuberay_manifest import (
    EXPIRES,
    load_manifest,
    name_of,
    ray_containers,
    run_manifest,
)
from tasks.clusters.running import renew
from tasks.errors import InvalidSpec, JobLost, RunStopped, Unreachable
from tasks.kinds.clusters import KubeRayCluster
from tasks.plan import make_plan
from tasks.ray_job.follower_heartbeat import STOPPED
from tasks.ray_job.job import Job
from tasks.resources import Resources
from tasks.spec import BatchInferenceSpec
from tests.clusters.kubernetes_api import NAMESPACE, TOKEN, Kubernetes
from tests.clusters.small_job import small_spec
from tests.flows.jobs_cluster import await_that

RUN = "0123456789abcdef"
NAME = f"prefect-ray-data-{RUN}"
Fields = dict[str, Any]


def kuberay_of(fields: Fields, **changes: Any) -> KubeRay:
    return KubeRay(KubeRayCluster(**{**fields, **changes}))


def job_of(spec: BatchInferenceSpec) -> Job:
    pins = {"fingerprints": {"code": ""}}
    return Job(spec, RUN, 1, "", pins, 0, 0, None, "")


def test_runs_of_one_path_on_two_stores_have_clusters_of_their_own(
    tmp_path: Path, kube: Kubernetes, fields: Fields, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the first that ends would delete the other's."""
    jobs = [replace(job_of(small_spec(tmp_path, fields)), run_name=f"{RUN}-{n}") for n in "ab"]
    looked_for = list[str]()
    monkeypatch.setattr(kuberay_api.KubeApi, "find", lambda _, name: looked_for.append(name))
    for job in jobs:
        kuberay_of(fields).attach(job)
    assert looked_for == [f"{NAME}-a", f"{NAME}-b"]


def seconds_left(kube: Kubernetes) -> float:
    expires = kube.clusters[NAME]["metadata"]["annotations"][EXPIRES]
    return (datetime.fromisoformat(expires) - datetime.now(UTC)).total_seconds()


def test_a_run_that_is_planned_anew_as_another_one_leaves_no_cluster(
    tmp_path: Path, kube: Kubernetes, fields: Fields
) -> None:
    planned = make_plan(small_spec(tmp_path, fields))
    cluster = kuberay_of(fields)
    cluster.make(planned.name, time.monotonic())
    at_work = AtWork(planned)
    at_work.go_on_with(replace(planned))
    assert kube.count("DELETE") == 0
    at_work.go_on_with(replace(planned, run_key="another"))
    assert kube.count("DELETE") == 1


def test_a_run_has_a_cluster_of_its_own(kube: Kubernetes, fields: Fields) -> None:
    cluster = kuberay_of(fields, image="mine:1", ttl_seconds=600)
    cluster.make(RUN, time.monotonic())
    cluster.make(RUN, time.monotonic())
    made = kube.clusters[NAME]
    assert (kube.count("POST"), list(kube.clusters)) == (1, [NAME])
    assert made["metadata"]["labels"]["prefect-ray-data/run"] == RUN
    assert 590 < seconds_left(kube) <= 600
    groups = [made["spec"]["headGroupSpec"], *made["spec"]["workerGroupSpecs"]]
    assert {g["template"]["spec"]["containers"][0]["image"] for g in groups} == {"mine:1"}
    cluster.release(RUN)
    cluster.release(RUN)
    time.sleep(0.05)
    assert cluster.api.find(NAME) is None


@pytest.mark.parametrize(
    ("limits", "gpus"),
    [({"nvidia.com/gpu": "1"}, 1.0), ({"nvidia.com/gpu": 0}, 0.0), (None, 0.0)],
)
def test_auto_is_a_gpu_where_the_manifest_declares_any(
    limits: dict[str, Any] | None, gpus: float, tmp_path: Path
) -> None:
    """They come when they are asked for: when the job starts no node has one."""
    cluster = KubeRayCluster()
    manifest = load_manifest(cluster)
    for container in ray_containers(manifest):
        container["resources"] = {"limits": limits} if limits else {}
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(manifest))
    spec = small_spec(tmp_path, {"kind": "kuberay", "manifest": str(file)})
    for asked, got in (("auto", gpus), (0.5, 0.5)):
        changed = spec.model_copy(update={"resources": Resources(num_gpus=asked)})
        assert resources_on(changed).num_gpus == got


def test_of_two_who_make_it_at_once_both_get_it(kube: Kubernetes, fields: Fields) -> None:
    clusters = [kuberay_of(fields) for _ in range(4)]
    kube.slow = 0.1
    threads = [threading.Thread(target=c.make, args=(RUN, time.monotonic())) for c in clusters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(kube.clusters) == [NAME]


def test_a_follower_renews_it_now_and_then(kube: Kubernetes, fields: Fields) -> None:
    cluster = kuberay_of(fields, ttl_seconds=600)
    cluster.make(RUN, time.monotonic())
    merge = {"metadata": {"annotations": {EXPIRES: "2020-01-01T00:00:00Z"}}}
    kube.clusters[NAME]["metadata"]["annotations"].update(merge["metadata"]["annotations"])
    for _ in range(20):
        renew(cluster, RUN)
    assert seconds_left(kube) > 590
    assert kube.count("PATCH") == 1
    # Neither trouble nor a cluster that is gone troubles the follower.
    cluster.renewed = float("-inf")
    kube.refusals["PATCH"] = [500]
    renew(cluster, RUN)
    cluster.renewed = float("-inf")
    kube.refusals["PATCH"] = [409]  # others write at the same moment
    renew(cluster, RUN)
    kube.clusters.clear()
    kube.times.clear()
    cluster.renewed = float("-inf")
    renew(cluster, RUN)
    assert kube.count("PATCH") == 3


def test_only_what_was_made_for_runs_is_deleted(kube: Kubernetes, fields: Fields) -> None:
    cluster = kuberay_of(fields)
    cluster.make(RUN, time.monotonic())
    kube.clusters[NAME]["metadata"]["labels"].clear()
    cluster.release(RUN)
    assert kube.count("DELETE") == 0
    with pytest.raises(InvalidSpec, match=rf"'{NAMESPACE}' has .* {NAME} .* not make: delete"):
        cluster.make(RUN, time.monotonic())


def test_of_one_name_only_the_very_same_is_deleted(kube: Kubernetes, fields: Fields) -> None:
    cluster = kuberay_of(fields)
    cluster.make(RUN, time.monotonic())
    seen = cluster.api.find(NAME)
    assert seen
    kube.clusters[NAME] = {**seen, "metadata": {**seen["metadata"], "uid": "of the next one"}}
    cluster.api.delete(seen)
    assert "deletionTimestamp" not in kube.clusters[NAME]["metadata"]


def test_a_passing_trouble_leaves_nothing_behind(kube: Kubernetes, fields: Fields) -> None:
    cluster = kuberay_of(fields)
    cluster.make(RUN, time.monotonic())
    kube.refusals = {"GET": [500], "DELETE": [503]}
    assert release(cluster.cluster, RUN) is None
    time.sleep(0.05)
    assert cluster.api.find(NAME) is None


def test_what_could_not_be_deleted_is_said(kube: Kubernetes, fields: Fields) -> None:
    cluster = kuberay_of(fields)
    cluster.make(RUN, time.monotonic())
    kube.refusals = {"DELETE": [403] * 3}
    left = release(cluster.cluster, RUN)
    assert left
    assert RUN in left
    assert "does not allow it" in left


def test_one_that_is_going_is_waited_for(kube: Kubernetes, fields: Fields, tmp_path: Path) -> None:
    kube.going_for = 0.5
    cluster = kuberay_of(fields)
    cluster.make(RUN, time.monotonic())
    first = kube.clusters[NAME]["metadata"]["uid"]
    cluster.release(RUN)
    assert cluster.attach(job_of(small_spec(tmp_path, fields))) is None
    cluster.make(RUN, time.monotonic() + 30)
    assert kube.clusters[NAME]["metadata"]["uid"] != first


def test_one_deleted_while_it_starts_is_not_made_again(kube: Kubernetes, fields: Fields) -> None:
    kube.ready_after = 60
    cluster = kuberay_of(fields, ready_seconds=30)

    def delete() -> None:
        await_that(lambda: bool(kube.clusters), "none is made")
        kuberay_of(fields).release(RUN)

    other = threading.Thread(target=delete)
    other.start()
    with pytest.raises(JobLost, match="was deleted while it started"):
        cluster.awaited(RUN)
    other.join()
    assert kube.count("POST") == 1


def test_whoever_stops_a_run_that_is_starting_stops_it_for_good(
    kube: Kubernetes, fields: Fields, tmp_path: Path
) -> None:
    kube.ready_after = 60
    job = job_of(small_spec(tmp_path, fields))

    def stop() -> None:
        await_that(lambda: bool(kube.clusters), "none is made")
        job.storage.write(job.stopped_file, b"")
        release(job.spec.cluster, RUN)

    other = threading.Thread(target=stop)
    other.start()
    with pytest.raises(RunStopped, match=f"^{STOPPED}$"):  # by these words no alert is sent
        kuberay_of(fields, ready_seconds=30).start(job)
    other.join()


def test_a_head_that_is_not_ready_in_time_is_named(
    kube: Kubernetes, fields: Fields, tmp_path: Path
) -> None:
    kube.ready_after = 60
    cluster = kuberay_of(fields, ready_seconds=0.3)
    late = rf"ready_seconds: 0\.3 seconds were not enough for {NAME} .* -n {NAMESPACE} get events"
    with pytest.raises(InvalidSpec, match=late):
        cluster.awaited(RUN)
    # Its head is not asked for a job that cannot be there.
    job = job_of(small_spec(tmp_path, fields))
    assert cluster.attach(job) is None
    assert not cluster.was_started(job)
    kube.clusters[NAME]["status"] = {"reason": "no node has room"}
    with pytest.raises(InvalidSpec, match="no node has room"):
        cluster.awaited(RUN)


def test_that_kubernetes_is_away_is_not_taken_for_a_head_that_is_late(
    kube: Kubernetes, fields: Fields, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = [0.0]  # of itself its time passes on a busy machine, before it has asked twice
    clock = SimpleNamespace(monotonic=lambda: sum(waited), sleep=waited.append)
    monkeypatch.setattr(kuberay, "time", clock)
    kube.ready_after = 60
    cluster = kuberay_of(fields, ready_seconds=1)
    cluster.make(RUN, time.monotonic())
    monkeypatch.setattr(cluster, "make", lambda *_: None)
    kube.refusals = {"GET": [500] * 1_000}
    with pytest.raises(Unreachable, match="answers with 500"):
        cluster.awaited(RUN)
    kube.refusals = {"GET": [500]}
    with pytest.raises(InvalidSpec, match="ready_seconds"):
        cluster.awaited(RUN)


def test_one_that_does_not_go_in_time_is_named(kube: Kubernetes, fields: Fields) -> None:
    kube.going_for = 60
    cluster = kuberay_of(fields, ready_seconds=0.3)
    cluster.make(RUN, time.monotonic())
    cluster.release(RUN)
    with pytest.raises(InvalidSpec, match=r"ready_seconds: .* earlier one is still being deleted"):
        cluster.awaited(RUN)
    assert kube.count("POST") == 1


def test_a_head_that_is_ready_and_does_not_answer(
    kube: Kubernetes, fields: Fields, tmp_path: Path
) -> None:
    kube.head_token = "secret-token"
    cluster = kuberay_of(fields, ready_seconds=0.3)
    job = job_of(small_spec(tmp_path, fields))
    assert cluster.attach(job) is None
    assert not cluster.was_started(job)
    with pytest.raises(InvalidSpec, match=r"ready_seconds: .*127\.0\.0\.1:9 does not answer"):
        cluster.start(job)
    # Nobody knows now whether a job is there.
    with pytest.raises(Unreachable):
        cluster.attach(job)


def test_a_job_of_a_cluster_that_is_gone_was_started(
    kube: Kubernetes, fields: Fields, tmp_path: Path
) -> None:
    job = job_of(small_spec(tmp_path, fields))
    job.storage.write(f"{job.folder}/submitted.json", b"{}")
    cluster = cluster_of(job.spec.cluster)
    assert cluster.attach(job) is None
    assert cluster.was_started(job)


def test_inside_kubernetes_the_service_account_counts(
    kube: Kubernetes, fields: Fields, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubernetes.config import incluster_config

    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "ca.crt").write_text("authorities")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    settings = kuberay_of(fields).api.client.configuration
    assert settings.host == "https://192.0.2.1:6443"
    assert settings.ssl_ca_cert == str(tmp_path / "ca.crt")
    assert TOKEN in str(settings.api_key)
    # A context that is named counts more.
    assert kuberay_of(fields, context="stand-in").api.client.configuration.host == kube.url


def test_without_any_way_to_kubernetes_the_field_is_named(
    fields: Fields, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(InvalidSpec, match=r"cluster\.context: none is set, .*; check KUBECONFIG"):
        kuberay_of(fields).check()


def test_a_check_makes_nothing(kube: Kubernetes, fields: Fields) -> None:
    assert "Ray 2.60" in kuberay_of(fields).check()
    assert (kube.count("POST"), kube.clusters) == (1, {})


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (401, Unreachable, "rbac.yaml"),
        (403, Unreachable, "rbac.yaml"),
        (404, InvalidSpec, "KubeRay is installed"),
        (422, InvalidSpec, "cluster.manifest"),
        (500, Unreachable, "answers with 500: no POST now"),
    ],
)
def test_a_refusal_says_what_to_do(
    kube: Kubernetes, fields: Fields, status: int, error: type[Exception], said: str
) -> None:
    kube.refusals = {"POST": [status]}
    with pytest.raises(error, match=said):
        kuberay_of(fields).check()


def test_silence_ends(kube: Kubernetes, fields: Fields, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kuberay_api, "SECONDS", (0.5, 0.2))
    kube.slow = 3
    with pytest.raises(Unreachable, match="Kubernetes does not answer"):  # as it would in the end
        kuberay_of(fields).api.find(NAME)
    await_that(lambda: bool(kube.seen), "it was not asked")
    time.sleep(0.5)  # as late as a second question would come after the first one
    assert len(kube.seen) == 1


def test_who_is_not_let_in_is_told_and_tells_no_token(
    kube: Kubernetes, fields: Fields, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    cluster = kuberay_of(fields, context="stranger")
    with pytest.raises(Unreachable) as raised:
        cluster.check()
    told = f"{raised.value!r}{raised.value.__cause__!r}{cluster!r}{caplog.text}"
    assert "does not allow it" in told
    assert TOKEN not in told
    with pytest.raises(InvalidSpec, match=r"cluster\.context: 'nobody'"):
        kuberay_of(fields, context="nobody").check()


def test_the_namespace_and_the_manifest_are_checked(
    kube: Kubernetes, fields: Fields, tmp_path: Path
) -> None:
    with pytest.raises(InvalidSpec, match=r"cluster\.namespace: 'elsewhere'"):
        kuberay_of(fields, namespace="elsewhere").check()
    shipped = yaml.safe_load(Path("deployments/cluster/raycluster.yaml").read_text())
    for change, said in (
        ({"kind": "RayJob"}, "is not RayCluster"),
        ({"spec": {}}, "lacks 'headGroupSpec'"),
        ({"spec": {**shipped["spec"], "rayVersion": "2.9.0"}}, "but this project .*: set that"),
    ):
        path = tmp_path / "cluster.yaml"
        path.write_text(yaml.safe_dump({**shipped, **change}))
        with pytest.raises(InvalidSpec, match=said):
            kuberay_of(fields, manifest=str(path)).check()
    with pytest.raises(InvalidSpec, match="cannot be read"):
        kuberay_of(fields, manifest=str(tmp_path / "none")).check()


NOT_FIELDS: dict[str, tuple[Any, str]] = {
    "empty": (None, "is not a RayCluster: it contains ''"),
    "list": ([1], r"it contains \[1\]"),
    "metadata list": ({"metadata": ["a"]}, r"metadata is \['a'\], but it must have fields"),
    "metadata text": ({"metadata": "a"}, "metadata is 'a', but it must have fields"),
    "labels": ({"metadata": {"labels": ["a"]}}, r"metadata\.labels is \['a'\]"),
    "annotations": ({"metadata": {"annotations": "a"}}, r"metadata\.annotations is 'a'"),
    "spec": ({"spec": "a"}, "a list or text instead of fields"),
    "a group": ({"spec": {"headGroupSpec": "a"}}, "a list or text instead of fields"),
}


@pytest.mark.parametrize(("given", "said"), NOT_FIELDS.values(), ids=NOT_FIELDS.keys())
def test_a_manifest_that_is_not_made_of_fields(given: Any, said: str, tmp_path: Path) -> None:
    shipped = yaml.safe_load(Path("deployments/cluster/raycluster.yaml").read_text())
    path = tmp_path / "cluster.yaml"
    whole = {**shipped, **given} if isinstance(given, dict) else given
    path.write_text("" if whole is None else yaml.safe_dump(whole))
    with pytest.raises(InvalidSpec, match=rf"^cluster\.manifest: .*{said}"):
        run_manifest(KubeRayCluster(manifest=str(path)), RUN)


def test_a_manifest_s_path_has_no_nul() -> None:
    with pytest.raises(InvalidSpec, match=r"^cluster\.manifest: 'a\\x00b' cannot be read"):
        load_manifest(KubeRayCluster(manifest="a\0b"))


def test_the_head_is_found_by_its_service_with_its_token(kube: Kubernetes, fields: Fields) -> None:
    kube.head_token = "secret-token"
    cluster = kuberay_of({"namespace": NAMESPACE})
    cluster.make(RUN, time.monotonic())
    found = cluster.api.find(NAME)
    assert found
    jobs = cluster.jobs(found)
    assert jobs.api.address == f"http://{NAME}-head-svc.{NAMESPACE}.svc:8265"
    assert jobs.api.headers == {"Authorization": "Bearer secret-token"}
    assert "secret-token" not in repr(jobs)


def test_a_placeholder_that_nothing_fills_is_refused() -> None:
    with pytest.raises(ValueError, match="filled in"):
        KubeRayCluster(address="http://{pod}:8265")


def test_names_fit_kuberay() -> None:
    assert len(name_of(RUN)) <= 53


def test_a_life_that_cannot_be_prolonged_is_told_before_it_ends(
    kube: Kubernetes,
    fields: Fields,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = kuberay_of(fields, ttl_seconds=600)
    cluster.make(RUN, time.monotonic())
    kube.refusals["PATCH"] = [403] * 20
    clock = SimpleNamespace(now=time.monotonic())
    monkeypatch.setattr(kuberay, "time", SimpleNamespace(monotonic=lambda: clock.now))
    for seconds in range(0, 400, 60):
        cluster.renew(RUN)
        assert ("cannot extend the life of" in caplog.text) is (seconds >= 150)
        clock.now += 60
