"""What is known before a job is submitted to a cluster whose GPUs are shared out."""

import asyncio
import json
import traceback
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from pydantic import ValidationError

from tasks.clusters.choose import cluster_of, max_gpus_of, resources_on
from tasks.clusters.ray_api import RayApi
from tasks.clusters.ray_cluster import RayCluster, load_ray_cluster
from tasks.clusters.ray_jobs import RayJob, RayJobs
from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.clusters import RayJobsCluster
from tasks.planning.preflight import check_cluster
from tasks.ray_job.cluster_capacity import gpus_of_replica
from tasks.ray_job.gpu_queue import GPUS, within_limit
from tasks.ray_job.job import Job
from tasks.spec_file import parse_spec

FOUR_GPUS = {"CPU": 16.0, "GPU": 4.0}
NO_GPU = {"CPU": 16.0}
TOO_MANY = [({"min_replicas": 4}, 2), ({}, 0.5)]
"""Of a cluster with GPUs, whose replicas take one each unless another number is asked for."""


class Api:
    """A cluster that answers, and notes what is submitted."""

    address = shown = "http://ray:8265"

    def __init__(self, *nodes: dict[str, float]) -> None:
        self.resources = nodes
        self.submitted: list[dict[str, str]] = []

    def version(self) -> dict[str, Any]:
        import ray

        return {"ray_version": ray.__version__}

    def nodes(self) -> list[dict[str, Any]]:
        return [{"resources_total": each} for each in self.resources]

    def upload(self, *_: Any) -> str:
        return "gcs://code.zip"

    def submit(self, _id: str, _run: str, _env: dict[str, Any], metadata: dict[str, str]) -> None:
        self.submitted.append(metadata)


def job_of(folder: Path, max_gpus: float, resources: dict[str, Any]) -> Job:
    return Job(
        spec=parse_spec(
            {
                "source": {"kind": "parquet", "path": str(folder / "in")},
                "model": {"kind": "python", "class": "a:B"},
                "sink": {"kind": "parquet", "path": str(folder / "out")},
                "cluster": {"kind": "ray_jobs", "address": Api.address, "max_gpus": max_gpus},
                "resources": resources,
            }
        ),
        run_id="run",
        attempt=1,
        plan="",
        pins={"fingerprints": {"code": ""}},
        num_shards=1,
        todo_bytes=1,
        todo_rows=None,
        todo_name="todo",
        max_gpus=max_gpus,
    )


@pytest.mark.parametrize(("resources", "max_gpus"), TOO_MANY)
def test_a_job_that_would_hold_more_than_the_limit_is_not_submitted(
    resources: dict[str, Any], max_gpus: float, tmp_path: Path
) -> None:
    api: Any = Api(NO_GPU, FOUR_GPUS)
    with pytest.raises(InvalidSpec, match=r"resources\.min_replicas: .* raise .* max_gpus"):
        RayJobs(api).start(job_of(tmp_path, max_gpus, resources))
    assert not api.submitted


@pytest.mark.parametrize(("resources", "max_gpus"), TOO_MANY)
def test_it_is_refused_before_anything_is_planned(
    resources: dict[str, Any], max_gpus: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = job_of(tmp_path, max_gpus, resources).spec
    monkeypatch.setattr("tasks.planning.preflight.api_of", lambda _: Api(FOUR_GPUS))
    with pytest.raises(InvalidSpec, match=r"resources\.min_replicas: .* raise .* max_gpus"):
        check_cluster(spec)
    monkeypatch.setattr("tasks.planning.preflight.api_of", lambda _: Api(NO_GPU))
    assert f"jobs may hold {max_gpus:g}" in check_cluster(spec)


def test_a_cluster_of_another_ray_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, api, ours = job_of(tmp_path, 2, {}).spec, Api(FOUR_GPUS), version("ray")
    monkeypatch.setattr("tasks.planning.preflight.api_of", lambda _: api)
    monkeypatch.setattr(api, "version", lambda: {"ray_version": "1.13.0"})
    with pytest.raises(InvalidSpec, match=r"runs Ray 1\.13\.0, but this project needs"):
        check_cluster(spec)
    alike = f"{ours.rpartition('.')[0]}.99"
    monkeypatch.setattr(api, "version", lambda: {"ray_version": alike})
    assert check_cluster(spec).startswith(f"Ray {alike} at ")


@pytest.mark.parametrize(
    ("resources", "nodes", "claim"),
    [
        ({}, [NO_GPU, FOUR_GPUS], "2"),
        ({"max_replicas": 1}, [FOUR_GPUS], "1"),
        ({"num_gpus": 0.5, "max_replicas": 3}, [NO_GPU], "1.5"),
        ({"min_replicas": 4}, [NO_GPU], "0"),
        ({}, [], "0"),
    ],
)
def test_a_job_says_how_many_gpus_it_may_hold(
    resources: dict[str, Any],
    nodes: list[dict[str, float]],
    claim: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api: Any = Api(*nodes)
    monkeypatch.setattr("tasks.clusters.choose.api_of", lambda _: api)
    RayJobs(api).start(settled(job_of(tmp_path, 2, resources)))
    assert api.submitted == [{GPUS: claim}]


def settled(job: Job) -> Job:
    """The job as it is stored for its driver."""
    return replace(job, spec=job.spec.model_copy(update={"resources": resources_on(job.spec)}))


@pytest.mark.parametrize("at_first", [[NO_GPU], [NO_GPU, FOUR_GPUS], None])
@pytest.mark.parametrize("later", [[NO_GPU], [NO_GPU, FOUR_GPUS]])
def test_a_job_takes_no_more_gpus_than_it_has_claimed_whatever_nodes_come(
    at_first: list[dict[str, float]] | None,
    later: list[dict[str, float]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api: Any = Api(*(at_first or []))

    def away() -> None:
        raise Unreachable("away")

    if at_first is None:
        api.nodes = away
    monkeypatch.setattr("tasks.clusters.choose.api_of", lambda _: api)
    job = settled(job_of(tmp_path, 2, {}))
    api.nodes = Api(NO_GPU).nodes  # those with GPUs are away while it is submitted
    RayJobs(api).start(job)
    (metadata,) = api.submitted
    each = gpus_of_replica(job.spec.resources, later)
    taken = each * within_limit(job, each).spec.resources.most_replicas()
    assert taken <= float(metadata[GPUS])
    assert taken == (2 if FOUR_GPUS in later and at_first != [NO_GPU] else 0)


def test_a_job_whose_cluster_cannot_be_asked_finds_word_that_nobody_follows(
    tmp_path: Path,
) -> None:
    job = job_of(tmp_path, 2, {})

    def away(_: str) -> None:
        raise Unreachable("away")

    api: Any = SimpleNamespace(stop=away)
    RayJob(api, job).stop()
    assert json.loads(job.storage.read(job.followed_file))["has_left"]


@pytest.mark.parametrize(
    ("of_the_spec", "of_the_block", "limit"), [(None, 2, 2), (1, 2, 1), (None, None, None)]
)
def test_the_limit_may_be_the_blocks(
    of_the_spec: float | None,
    of_the_block: float | None,
    limit: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocks = {"b": SimpleNamespace(max_gpus=of_the_block)}
    monkeypatch.setattr("tasks.clusters.ray_cluster.load_ray_cluster", blocks.__getitem__)
    assert max_gpus_of(RayJobsCluster(block="b", max_gpus=of_the_spec)) == limit


def test_a_block_that_was_saved_with_a_mistake_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect's UI takes it; who loads it has Prefect's words for what pydantic says."""

    def load(name: str, *, _sync: bool) -> RayCluster:
        try:
            return RayCluster(address="https://me:hunter2@ray/#/jobs")
        except ValidationError as error:
            raise RuntimeError(f"Unable to load {name!r} due to failed validation") from error

    monkeypatch.setattr(RayCluster, "load", load)
    with pytest.raises(
        InvalidSpec, match=r"^cluster\.block: 'b' must be corrected: address: "
    ) as seen:
        load_ray_cluster("b")
    assert "without the part that a browser adds" in str(seen.value)
    assert "hunter2" not in str(seen.value)


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_a_block_is_loaded_where_an_event_loop_runs() -> None:
    """As a hook is called within an async flow: there Prefect's own call is one to await."""

    async def load() -> str:
        return load_ray_cluster("in-a-loop").address

    RayCluster(address="http://ray:8265").save("in-a-loop")
    assert asyncio.run(load()) == "http://ray:8265"


def test_boxes_of_a_block_that_were_cleared_are_left_out() -> None:
    names = ("token", "ca_file", "client_certificate_file", "client_key_file")
    fields: Any = dict.fromkeys(names, "")
    block = RayCluster(address="http://ray:8265", **fields)
    assert {name: getattr(block, name) for name in names} == dict.fromkeys(names)


def test_who_keeps_the_block_may_be_away() -> None:
    """As the rest of an outage: what may pass is tried again, and `cancel` stops other jobs."""
    with (
        temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}),
        pytest.raises(Unreachable, match=r"^cluster\.block: Prefect's server, which keeps 'b',"),
    ):
        cluster_of(RayJobsCluster(block="b"))


def test_auto_stays_open_where_nobody_shares_gpus_out(tmp_path: Path) -> None:
    job = job_of(tmp_path, 2, {})
    cluster = job.spec.cluster.model_copy(update={"max_gpus": None})
    spec = job.spec.model_copy(update={"cluster": cluster})
    assert resources_on(spec) == spec.resources, "and the cluster is not asked"


def test_a_password_in_the_address_is_told_to_nobody() -> None:
    api = RayApi("http://user:hunter2@127.0.0.1:1")
    assert "http://***@127.0.0.1:1/#/jobs/" in RayJob(api, SimpleNamespace(id="j")).where  # type: ignore[arg-type]
    with pytest.raises(Unreachable) as raised:
        api.version()
    assert "http://***@127.0.0.1:1 does not answer" in str(raised.value)
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))
