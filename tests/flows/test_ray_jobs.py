"""Whole runs on a Ray cluster elsewhere: what is published, what is said, what stays secret."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.batch_inference import batch_inference
from tasks.errors import InvalidSpec, Unreachable
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published
from tests.flows.jobs_cluster import (
    PATIENCE_SECONDS,
    JobsCluster,
    jobs_spec,
    orchestrator,
    run_folder,
)
from tests.flows.jobs_front import jobs_front
from tests.flows.test_cli import call

pytestmark = [pytest.mark.cluster, pytest.mark.ray, pytest.mark.prefect]


def flow_runs_since(moment: float) -> list[Any]:
    """Flow runs that started after a moment, read back from Prefect's API."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs()
    return [run for run in runs if run.start_time and run.start_time.timestamp() >= moment]


def logs_of(flow_run: Any, until: Callable[[str], bool] = lambda text: True) -> str:
    """A flow run's log, read back from Prefect's API, where it arrives a little later."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId

    mine = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[flow_run.id]))
    give_up = time.monotonic() + PATIENCE_SECONDS
    with get_client(sync_client=True) as client:
        while True:
            text = "\n".join(line.message for line in client.read_logs(mine, limit=200))
            if until(text) or time.monotonic() > give_up:
                return text
            time.sleep(0.5)


def all_that_is_left(spec: Any, cluster: JobsCluster, flow_run: Any, log: str) -> dict[str, str]:
    """Whatever anybody can read of a run afterwards, by where it is."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        artifacts = [artifact.model_dump_json() for artifact in client.read_artifacts()]
    folders = [Path(spec.sink.path), Path(f"{spec.sink.path}.state")]
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return {
        **{str(file): file.read_bytes().decode("latin-1") for file in files},
        "the flow run's log": log,
        "the flow run": flow_run.model_dump_json(),
        "artifacts": "".join(artifacts),
        "the cluster's list of jobs": str(cluster.api.client.list_jobs()),
        **{f"the log of job {job}": cluster.api.log(job) for job in cluster.jobs()},
    }


def assert_secret(cluster: JobsCluster, left: dict[str, str]) -> None:
    """The cluster's token is nowhere."""
    assert len(left) > 10
    assert [where for where, text in left.items() if cluster.token in text] == []


def test_a_run_on_a_cluster_elsewhere(numbers: Path, jobs_cluster: JobsCluster) -> None:
    environment = {"working_dir": str(users_folder(numbers.parent)), "env_vars": {"GREETING": "hi"}}
    spec = jobs_spec(numbers, jobs_cluster.by_block, environment=environment)
    begun = time.time()
    report = batch_inference(spec)
    print(f"a run of 1000 rows took {time.time() - begun:.1f} s")
    rows = published(spec)
    assert [row["doubled"] for row in rows] == [2.0 * each for each in range(1000)]
    assert (report["rows"]["written"], report["attempts"]) == (1000, 1)
    assert jobs_cluster.jobs(report["run_id"]) == {f"{report['run_id']}-1": "SUCCEEDED"}
    assert {row["greeting"] for row in rows} == {"hi"}
    for column in ("model_file", "helper_file", "tasks_file"):
        assert all("/runtime_resources/" in row[column] for row in rows), rows[0]
    (flow_run,) = flow_runs_since(begun)
    log = logs_of(flow_run, lambda text: "the model is loaded" in text)
    assert "the model is loaded" in log
    assert "it/s" not in log
    assert_secret(jobs_cluster, all_that_is_left(spec, jobs_cluster, flow_run, log))
    again = batch_inference(spec)
    assert (again["published"], again["inputs_skipped"]) == (False, 10)
    assert len(jobs_cluster.jobs(report["run_id"])) == 1
    assert_made_anew(spec, jobs_cluster, report["run_id"])


def assert_made_anew(spec: BatchInferenceSpec, cluster: JobsCluster, run_id: str) -> None:
    """Delete a run's output, and run again where something is lost of the submission on its way.

    The cluster remembers the job of its run, whose name no other gets. Of its successor the first
    submission never arrives, of the second the reply is lost: one job comes, the run follows it,
    and no attempt is spent on that.
    """
    for folder in (spec.sink.path, f"{spec.sink.path}.state"):
        shutil.rmtree(folder)
    with jobs_front(cluster.ray.dashboard, lose=["request", "reply"]) as front:
        cluster.save_block(address=front.url)
        try:
            report = batch_inference(spec)
        finally:
            cluster.save_block()
        assert front.submissions == 2
    assert (report["run_id"], report["attempts"]) == (run_id, 1)
    assert report["rows"]["written"] == 1000
    assert [row["doubled"] for row in published(spec)] == [2.0 * each for each in range(1000)]
    assert cluster.jobs(run_id) == {f"{run_id}-{number}": "SUCCEEDED" for number in (1, 2)}


def users_folder(folder: Path) -> Path:
    """A user's code, with a `tasks` of their own, which is none of ours."""
    from tests.flows.jobs_cluster import CODE

    code = folder / "code"
    shutil.copytree(CODE, code, ignore=shutil.ignore_patterns("__pycache__"))
    (code / "tasks").mkdir()
    (code / "tasks/__init__.py").write_text('raise RuntimeError("this is not the tasks you want")')
    return code


def test_a_package_that_the_cluster_lacks(numbers: Path, jobs_cluster: JobsCluster) -> None:
    """A run that fails: the error says what to do, the log has the worker's traceback."""
    model = {"kind": "python", "class": "lacking:Lacking"}
    spec = jobs_spec(numbers, jobs_cluster.by_block, model=model, retries={"max_attempts": 3})
    begun = time.time()
    with pytest.raises(InvalidSpec) as caught:
        batch_inference(spec)
    assert "no_such_package" in str(caught.value)
    assert "environment.pip" in str(caught.value)
    run_id = run_folder(spec).name
    assert jobs_cluster.jobs(run_id) == {f"{run_id}-1": "FAILED"}
    (flow_run,) = flow_runs_since(begun)
    log = logs_of(flow_run, lambda text: "lacking.py" in text)
    assert "Traceback (most recent call last)" in log
    assert "lacking.py" in log
    left = all_that_is_left(spec, jobs_cluster, flow_run, log)
    notes = getattr(caught.value, "__notes__", [])
    assert_secret(jobs_cluster, {**left, "the error": f"{caught.value!r} {notes}"})


IMPOSSIBLE = {
    "4 GPUs on one node": ({"num_gpus": 4}, r"resources\.num_gpus: 4.* has 1"),
    "3 replicas on 2 GPUs": (
        {"num_gpus": 1, "min_replicas": 3},
        r"resources\.min_replicas: 3 .* room for 2",
    ),
    "a GPU that is not there": (
        {"accelerator_type": "H100"},
        r"resources\.accelerator_type: 'H100' is requested",
    ),
}


@pytest.mark.parametrize(("resources", "message"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_no_node_can_hold_is_refused_at_once(
    numbers: Path, jobs_cluster: JobsCluster, resources: dict[str, Any], message: str
) -> None:
    before = jobs_cluster.jobs()
    with pytest.raises(InvalidSpec, match=message):
        batch_inference(jobs_spec(numbers, jobs_cluster.by_block, resources=resources))
    assert jobs_cluster.jobs() == before


def test_exit_codes_before_anything_is_submitted(
    numbers: Path,
    jobs_cluster: JobsCluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As a person sees them: one message each, in a process of its own where Ray may say more."""
    before = jobs_cluster.jobs()
    possible = jobs_spec(numbers, jobs_cluster.by_address)
    no_token = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": ""}
    with orchestrator(possible, jobs_cluster, **no_token) as stranger:
        impossible = jobs_spec(numbers, jobs_cluster.by_block, resources={"num_gpus": 4})
        assert call(monkeypatch, "run", str(written(impossible))) == 2
        assert stranger.end()[0] == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("InvalidSpec: resources.num_gpus: 4")
    (line,) = stranger.errors.read_text().splitlines()
    assert line.startswith(f"Unreachable: cluster.address: {jobs_cluster.ray.dashboard} refuses")
    assert "RayCluster block" in line
    assert jobs_cluster.jobs() == before


def written(spec: BatchInferenceSpec) -> Path:
    """A spec's file."""
    file = Path(spec.sink.path).with_name("spec.yaml")
    file.write_text(yaml.safe_dump(spec.model_dump(mode="json", by_alias=True)))
    return file


def test_replicas_that_would_take_all_cores_are_refused(
    numbers: Path, jobs_cluster: JobsCluster
) -> None:
    before, resources = jobs_cluster.jobs(), {"num_gpus": 0, "min_replicas": 5}
    with pytest.raises(InvalidSpec, match=r"5\.5 CPU cores must be free at .* the cluster has 5"):
        batch_inference(jobs_spec(numbers, jobs_cluster.by_block, resources=resources))
    assert jobs_cluster.jobs() == before


def test_without_a_token_nobody_is_let_in(numbers: Path, jobs_cluster: JobsCluster) -> None:
    begun = time.monotonic()
    with pytest.raises(Unreachable, match="refuses access"):
        batch_inference(jobs_spec(numbers, {**jobs_cluster.by_address}))
    assert time.monotonic() - begun < 60, "it is not asked again and again"


def test_nodes_that_do_not_come_are_waited_for(numbers: Path, jobs_cluster: JobsCluster) -> None:
    cluster = {**jobs_cluster.by_block, "wait_for_nodes_seconds": 3}
    spec = jobs_spec(numbers, cluster, resources={"num_gpus": 4})
    with pytest.raises(InvalidSpec, match=r"num_gpus: 4.* \(after 3 s of waiting for nodes\)"):
        batch_inference(spec)
    assert len(jobs_cluster.jobs(run_folder(spec).name)) == 1
