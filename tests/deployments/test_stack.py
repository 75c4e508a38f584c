"""A whole stack, as `make up` starts it: deployments run, schedules fire, nothing stays behind."""

import time
from collections.abc import Container, Iterator
from typing import Any
from uuid import UUID

import psutil
import pyarrow.parquet as pq
import pytest
import requests
from prefect.states import Cancelling, Pending, Running

from deployments.prefect_file import load_prefect_file
from deployments.stack.registration import BLOCK, prefect_client
from deployments.stack.stack import Stack, up
from tests.listeners import listeners
from tests.whole_stack import AUTH, as_operator

pytestmark = [
    pytest.mark.stack,
    pytest.mark.ray,
    pytest.mark.prefect,
    pytest.mark.timeout(1800),
]

DEPLOYMENTS = {each.name: each for each in load_prefect_file().deployments}
CRON = [name for name, deployment in DEPLOYMENTS.items() if deployment.schedules]
AFTER_OTHERS = {"redrive-images", "reembed-texts", "search-images", "verify-images"}
"""They go on with what a run of another has published."""
SCHEDULED_SECONDS = 150.0
RUN_SECONDS = 900.0
"""Of three runs at once on two cores that may be five times as slow as usual."""
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


@pytest.fixture(scope="module", autouse=True)
def operator() -> Iterator[None]:
    """Who may use the stack."""
    with as_operator():
        yield


@pytest.fixture(scope="module")
def deployed(stack: Stack) -> dict[str, Any]:
    """Deployments by name, as the server has them."""
    with prefect_client(stack.state) as client:
        return {each.name: each for each in client.read_deployments()}


@pytest.fixture(scope="module")
def scheduled(stack: Stack, deployed: dict[str, Any]) -> dict[str, int]:
    """Runs that the server has scheduled by deployment; after that schedules rest.

    A scheduled run that comes in the middle of a test would take the only place.
    """
    counts = dict.fromkeys(CRON, 0)
    until = time.monotonic() + SCHEDULED_SECONDS
    with prefect_client(stack.state) as client:
        while not all(counts.values()) and time.monotonic() < until:
            time.sleep(0.5)
            for name in CRON:
                ids = [deployed[name].id]
                counts[name] = len(client.get_scheduled_flow_runs_for_deployments(ids))
        for name in CRON:
            client.pause_deployment(deployed[name].id)
            client.resume_deployment(deployed[name].id)
            for schedule in client.read_deployment_schedules(deployed[name].id):
                client.update_deployment_schedule(deployed[name].id, schedule.id, active=False)
    return counts


@pytest.fixture(scope="module")
def finished(
    stack: Stack, deployed: dict[str, Any], scheduled: dict[str, int]
) -> dict[str, tuple[str, UUID]]:
    """A run of each deployment on the worker, side by side where they can be: how it ended."""
    ended: dict[str, tuple[str, UUID]] = {}
    with prefect_client(stack.state) as client:
        for names in (set(DEPLOYMENTS) - AFTER_OTHERS, AFTER_OTHERS):
            runs = {
                name: client.create_flow_run_from_deployment(deployed[name].id).id for name in names
            }
            ended |= {name: (await_end(client, run), run) for name, run in runs.items()}
    return ended


def await_end(client: Any, run: UUID, ends: Container[str] = FINAL) -> str:
    """The type of the state that a run ends in."""
    until = time.monotonic() + RUN_SECONDS
    while (state := client.read_flow_run(run).state.type.value) not in ends:
        assert time.monotonic() < until, state
        time.sleep(0.5)
    return str(state)


def test_every_deployment_is_on_the_server(deployed: dict[str, Any]) -> None:
    assert set(deployed) == set(DEPLOYMENTS)
    for name, wanted in DEPLOYMENTS.items():
        found = deployed[name]
        assert found.description == wanted.description
        assert found.tags == wanted.tags
        assert found.parameters["spec"]["model"]["kind"], "a full dump, not a placeholder"
        assert found.job_variables == wanted.work_pool.job_variables
        if limit := wanted.concurrency_limit:
            assert not isinstance(limit, int)
            assert found.global_concurrency_limit.limit == limit.limit
            strategy = found.concurrency_options.collision_strategy.value
            assert strategy == limit.collision_strategy
        for schedule, given in zip(found.schedules, wanted.schedules, strict=True):
            assert (schedule.schedule.cron, schedule.schedule.timezone) == (
                given.cron,
                given.timezone,
            )


@pytest.mark.parametrize("name", CRON)
def test_the_schedule_fires(scheduled: dict[str, int], name: str) -> None:
    assert scheduled[name] >= 1  # of three, some have begun where the hour has just struck


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_run_on_the_worker_completes(
    stack: Stack, finished: dict[str, tuple[str, UUID]], name: str
) -> None:
    state, _ = finished[name]
    assert state == "COMPLETED", stack.log("worker").read_text()[-5000:]


def test_runs_are_reported_and_what_they_publish_is_there(
    stack: Stack, finished: dict[str, tuple[str, UUID]]
) -> None:
    digits = stack.folder / "predictions/digits"
    rows = sum(pq.read_metadata(file).num_rows for file in digits.glob("*.parquet"))
    assert rows == 797, "as many as can be read; the five broken ones are set aside"
    texts = stack.folder / "predictions/texts"
    assert sum(pq.read_metadata(file).num_rows for file in texts.glob("*.parquet")) > 1_000
    with prefect_client(stack.state) as client:
        artifacts = client.read_artifacts()
        (seven,) = [each for each in artifacts if each.key == "digit-vectors-search"]
    keys = {artifact.key for artifact in artifacts}
    assert {"digits-report", "texts-report", "digits-infer", "texts-write"} <= keys
    page = str(seven.data)
    assert "nearest 10 of 797 rows" in page
    assert page.count("<td>7</td>") >= 9, "the query is a seven"
    assert page.count("<img") == 11


def test_the_server_lets_nobody_in_without_the_password(stack: Stack) -> None:
    blocks = f"{stack.api_url}/block_documents/filter"
    body = {"include_secrets": True}
    assert requests.post(blocks, json=body, timeout=60).status_code == 401
    login, password = AUTH.split(":")
    with requests.post(blocks, json=body, timeout=60, auth=(login, password)) as answer:
        named = {block["name"]: block["data"] for block in answer.json()}
    assert named[BLOCK]["token"] == stack.state.ray_token, "who is let in sees secrets in plain"


def test_ray_lets_nobody_in_without_the_token(stack: Stack) -> None:
    jobs = f"{stack.ray_url}/api/jobs/"
    assert requests.get(jobs, timeout=60).status_code == 401
    headers = {"Authorization": f"Bearer {stack.state.ray_token}"}
    assert requests.get(jobs, timeout=60, headers=headers).status_code == 200


def test_other_machines_reach_nothing_of_it(
    stack: Stack, finished: dict[str, tuple[str, UUID]]
) -> None:
    """Neither Ray's workers nor the processes of runs listen elsewhere, either."""
    assert finished
    for name, process in stack.state.processes.items():
        near, far = listeners(psutil.Process(process.pid))
        assert not far, name
        assert near or name == "worker"


def test_other_pages_in_the_browser_cannot_speak_to_the_api(stack: Stack) -> None:
    def allowed(origin: str) -> str | None:
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        answer = requests.options(f"{stack.api_url}/flows/", headers=asked, timeout=60)
        return answer.headers.get("access-control-allow-origin")

    assert allowed(stack.ui_url) == stack.ui_url
    assert allowed("http://elsewhere.example") is None


def test_up_again_starts_what_has_died_and_takes_up_what_it_was_at(
    stack: Stack, deployed: dict[str, Any], finished: dict[str, tuple[str, UUID]]
) -> None:
    before = dict(stack.state.processes)
    (worker,) = [child for child in stack.children if child.pid == before["worker"].pid]
    worker.kill()
    worker.wait()
    # One that waits for a run of the schedule's, should it be on the hour, and is not cancelled.
    lost = begin_without_a_process(stack, deployed["classify-images"].id)
    cancelled = begin_without_a_process(stack, deployed["embed-texts"].id)
    with prefect_client(stack.state) as client:
        client.set_flow_run_state(cancelled, Cancelling(), force=True)
    said: list[str] = []
    again = up(stack.folder, said.append)
    stack.children += again.children
    stack.state = again.state
    assert [line for line in said if line.startswith("starting")] == ["starting worker"]
    assert again.state.processes["server"] == before["server"]
    assert again.state.processes["ray"] == before["ray"]
    assert again.ui_url == stack.ui_url
    with prefect_client(stack.state) as client:
        # It crashed first, and has been retried.
        assert await_end(client, lost, FINAL - {"CRASHED"}) == "COMPLETED"
        assert client.read_flow_run(lost).run_count == 2
        state = client.read_flow_run(cancelled).state
        assert state
        assert state.is_cancelled(), "nobody wants it started again"


def begin_without_a_process(stack: Stack, deployment: UUID) -> UUID:
    """A run that was under way when its process and its worker were killed."""
    with prefect_client(stack.state) as client:
        run = client.create_flow_run_from_deployment(deployment).id
        client.set_flow_run_state(run, Pending())
        client.set_flow_run_state(run, Running())
        state = client.read_flow_run(run).state
        assert state
        assert state.is_running()
    return run
