"""Automations on a real server, each tested by causing what it is for."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterDeploymentId
from prefect.client.schemas.objects import State, StateType
from prefect.events import emit_event
from prefect.states import (
    AwaitingConcurrencySlot,
    Cancelling,
    Completed,
    Crashed,
    Failed,
    InfrastructurePending,
    Pending,
    Running,
    Submitting,
    Suspended,
)

from deployments.automations import (
    alert_on_failure,
    alert_when_overdue,
    deploy_automations,
    run_after,
    run_on_arrival,
)
from deployments.dead_runs import (
    end_silent_runs,
    end_unstarted_runs,
    retry_crashed_runs,
    retry_unstarted_runs,
)
from flows.backfill import backfill
from flows.batch_inference import batch_inference
from flows.heartbeats import HEARTBEAT, LEFT
from flows.preview import preview
from flows.redrive import redrive
from flows.search import search
from flows.verify import verify
from tasks.errors import InvalidSpec
from tasks.ray_job.follower_heartbeat import STOPPED
from tests.flows.test_heartbeats import heard
from tests.stack_server import stack_server

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

FAILED = "Flow run encountered an exception: "
"""What Prefect says before an error that has ended a flow."""
SILENT_SECONDS = 15.0
"""Prefect takes ten at least, and its server tells of an event up to five after it came."""
PATIENCE_SECONDS = 150.0


@pytest.fixture(scope="module")
def prefect_server(
    tmp_path_factory: pytest.TempPathFactory, prefect_database: Path
) -> Iterator[None]:
    """The stack's, beneath which no event is lost."""
    with stack_server(tmp_path_factory.mktemp("stack"), prefect_database):
        yield


@contextmanager
def deploying() -> Iterator[Callable[..., list[UUID]]]:
    """Deploys automations, which end with the block."""
    made: list[UUID] = []

    def deploy_for_now(*automations: Any) -> list[UUID]:
        ids = deploy_automations(automations)
        made.extend(ids)
        return ids

    yield deploy_for_now
    with get_client(sync_client=True) as client:
        for each in set(made):
            client.delete_automation(each)


@pytest.fixture
def deploy() -> Iterator[Callable[..., list[UUID]]]:
    """Deploys automations for one test: runs of others are not to be retried by them."""
    with deploying() as deploy_for_now:
        yield deploy_for_now


@pytest.fixture(scope="module")
def deployments(prefect_server: None) -> dict[str, UUID]:
    """Deployments by name, on a pool without a worker: what is scheduled stays so."""
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="automated", type="process"), overwrite=True)
        flow = client.create_flow(batch_inference)
        return {
            name: client.create_deployment(flow, name=name, work_pool_name="automated")
            for name in ("first", "then")
        }


def flow_run(deployment: UUID, *states: State) -> UUID:
    """A flow run that goes through states, as its process would say."""
    with get_client(sync_client=True) as client:
        run = client.create_flow_run_from_deployment(deployment)
        for state in states:
            client.set_flow_run_state(run.id, state, force=True)
    return UUID(str(run.id))


def beat(run: UUID, what: str = HEARTBEAT) -> None:
    """A heartbeat of a flow run, as its process emits it, or its last word."""
    with get_client(sync_client=True) as client:
        flow_id = client.read_flow_run(run).flow_id
    flow = {
        "prefect.resource.id": f"prefect.flow.{flow_id}",
        "prefect.resource.role": "flow",
        "prefect.resource.name": "batch-inference",
    }
    emit_event(what, {"prefect.resource.id": f"prefect.flow-run.{run}"}, related=[flow])


def states_of(run: UUID) -> list[str]:
    """Names of the states that a flow run has gone through."""
    with get_client(sync_client=True) as client:
        found = client.read_flow_run_states(run)
    return [str(state.name) for state in sorted(found, key=lambda state: state.timestamp)]


def awaits_retry(run: UUID) -> bool:
    """Whether a worker would start a flow run again, as the run says; its states come before it."""
    with get_client(sync_client=True) as client:
        found = client.read_flow_run(run)
    return found.state_name == "AwaitingRetry" and found.next_scheduled_start_time is not None


def await_retries(*runs: UUID) -> None:
    """Wait until each of them was about to start again, by its states, which last."""
    left = {*runs}

    def all_were() -> bool:
        left.difference_update([each for each in left if "AwaitingRetry" in states_of(each)])
        return not left

    await_that(all_were, lambda: [states_of(each) for each in left])


def await_events(deployment: UUID) -> None:
    """Wait until what has happened so far is known to the automations, told twice or not."""
    crashed = flow_run(deployment, Running(), Crashed(message="by its worker's word"))
    await_that(lambda: awaits_retry(crashed), lambda: states_of(crashed))
    with get_client(sync_client=True) as client:
        # Else no worker takes one whose flow has `retries`.
        assert client.read_flow_run(crashed).empirical_policy.retry_type == "reschedule"


def runs_of(deployment: UUID) -> int:
    """How many flow runs a deployment has."""
    mine = FlowRunFilter(deployment_id=FlowRunFilterDeploymentId(any_=[deployment]))
    with get_client(sync_client=True) as client:
        return len(client.read_flow_runs(flow_run_filter=mine))


def await_that(holds: Callable[[], bool], otherwise: Callable[[], object]) -> None:
    """Wait until something holds."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < until, otherwise()
        time.sleep(0.2)


def test_runs_whose_process_or_worker_is_gone_are_started_again(
    deploy: Any, deployments: dict[str, UUID]
) -> None:
    """Before they began or after, on a server with all automations for it: one wait for both."""
    deploy(end_silent_runs(SILENT_SECONDS), retry_crashed_runs(max_runs=2))
    deploy(end_unstarted_runs(SILENT_SECONDS / 60), retry_unstarted_runs())
    first = deployments["first"]
    mute = flow_run(first, Running())
    done = flow_run(first, Running(), Completed())
    cancelled = flow_run(first, Running(), Cancelling())
    suspended = flow_run(first, Running())
    leaving = flow_run(first, Running())
    silent = flow_run(first, Running())
    for each in (done, cancelled, silent, suspended):
        beat(each)
    # Soon: what has given a sign of life and is silent from then on is begun again.
    await_that(lambda: bool(heard(str(suspended))), lambda: "no heartbeat")
    with get_client(sync_client=True) as client:
        for each in (suspended, leaving):
            client.set_flow_run_state(each, Suspended())
    beat(leaving)
    beat(leaving, LEFT)
    taken = flow_run(first, Pending(), Submitting(), InfrastructurePending())
    slow = flow_run(first, Pending(), InfrastructurePending())
    begun = flow_run(first, Pending(), Running())
    not_wanted = flow_run(first, Pending(), Cancelling())
    put_back = flow_run(first, Pending(), AwaitingConcurrencySlot())
    await_that(lambda: awaits_retry(slow), lambda: states_of(slow))
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(slow, Running())
    await_retries(silent, taken)
    again = ["Crashed", "AwaitingRetry"]
    assert states_of(silent)[:4] == ["Scheduled", "Running", *again]
    not_begun = ["Scheduled", "Pending", "Submitting", "InfrastructurePending"]
    assert states_of(taken)[:6] == [*not_begun, *again]
    # Its second start was its last.
    spent = flow_run(first, Running(), Pending(), Running(), Crashed(message="again"))
    await_events(first)
    assert states_of(spent)[-1] == "Crashed"
    assert [states_of(each).count("Crashed") for each in (silent, taken)] == [1, 1]
    assert states_of(done) == ["Scheduled", "Running", "Completed"], "a heartbeat came late"
    assert states_of(cancelled) == ["Scheduled", "Running", "Cancelling"], "nobody wants it again"
    assert states_of(suspended) == ["Scheduled", "Running", "Suspended"], "it waits for a person"
    assert states_of(leaving) == ["Scheduled", "Running", "Suspended"], "its process has left it"
    assert states_of(mute) == ["Scheduled", "Running"], "its heartbeats may not get through"
    assert states_of(slow)[-1] == "Running", "its process came after all"
    assert states_of(begun)[-1] == "Running"
    assert states_of(not_wanted)[-1] == "Cancelling"
    assert states_of(put_back)[-1] == "AwaitingConcurrencySlot", "it waits for its turn"


def test_a_run_that_never_began_is_not_started_again_and_again(
    deploy: Any, deployments: dict[str, UUID]
) -> None:
    deploy(retry_crashed_runs(), retry_unstarted_runs())
    run = flow_run(deployments["first"], Pending(), Crashed(message="no such package"))
    await_that(lambda: awaits_retry(run), lambda: states_of(run))
    await_events(deployments["first"])
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run, Pending(), force=True)
        client.set_flow_run_state(run, Crashed(message="still no such package"), force=True)
    await_events(deployments["first"])
    assert states_of(run)[-1] == "Crashed", "as the one that crashed after it would be by now"


def test_all_flows_are_ended_and_those_that_publish_are_started_again() -> None:
    publishing = {each.name for each in (batch_inference, redrive, backfill)}
    waited_for = {each.name for each in (preview, verify, search)}
    for automation, flows in (
        (end_silent_runs(), {*publishing, *waited_for}),
        (end_unstarted_runs(), {*publishing, *waited_for}),
        (retry_crashed_runs(), publishing),
        (retry_unstarted_runs(), publishing),
    ):
        related: Any = automation.trigger.match_related  # type: ignore[union-attr]
        first = related[0] if isinstance(related, list) else related
        assert set(first["prefect.resource.name"]) == flows


def test_data_that_arrives_and_a_run_that_completes_start_runs(
    deploy: Any, deployments: dict[str, UUID]
) -> None:
    first, then = "batch-inference/first", "batch-inference/then"
    deploy(run_on_arrival(first, "data.arrived", "s3://pets/*"), run_after(first, then))
    before = {name: runs_of(each) for name, each in deployments.items()}
    for where in ("s3://plants/new.parquet", "s3://pets/new.parquet"):
        emit_event("data.arrived", {"prefect.resource.id": where})
    await_that(lambda: runs_of(deployments["first"]) > before["first"], lambda: before)
    assert runs_of(deployments["then"]) == before["then"]
    flow_run(deployments["first"], Running(), Completed())
    await_that(lambda: runs_of(deployments["then"]) > before["then"], lambda: before)
    assert runs_of(deployments["first"]) == before["first"] + 2


class Inbox(BaseHTTPRequestHandler):
    """Where alerts go."""

    letters: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.letters.append(json.loads(self.rfile.read(length)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def block(prefect_server: None) -> Iterator[UUID]:
    """A notification block that posts to the inbox."""
    server = HTTPServer(("127.0.0.1", 0), Inbox)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    said = {"subject": "{{subject}}", "body": "{{body}}"}
    url = f"http://127.0.0.1:{server.server_port}"
    hook = CustomWebhookNotificationBlock(name="inbox", url=url, json_data=said)
    yield UUID(str(hook.save("inbox", overwrite=True)))
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module", autouse=True)
def overdue(deployments: dict[str, UUID], block: UUID) -> Iterator[None]:
    """No run of `then` completes: that is so for long enough while the other tests wait too."""
    with deploying() as deploy_for_all:
        deploy_for_all(alert_when_overdue(block, "batch-inference/then", SILENT_SECONDS / 3600))
        yield


def is_told(what: str) -> bool:
    """Whether any letter says so."""
    return any(what in letter["body"] for letter in Inbox.letters)


def test_somebody_is_told_of_what_fails_and_of_what_does_not_come(
    deploy: Any, deployments: dict[str, UUID], block: UUID
) -> None:
    deploy(alert_on_failure(block))
    flow_run(deployments["first"], Running(), Completed())
    flow_run(deployments["first"], Running(), Failed(message=f"{FAILED}RunStopped: {STOPPED}"))
    flow_run(deployments["first"], Running(), Failed())
    flow_run(deployments["first"], Running(), Failed(message="too many rows were set aside"))
    late: Any = Failed(name="TimedOut", message="Flow run exceeded timeout of 60.0 second(s)")
    flow_run(deployments["first"], Running(), late)
    reasons = (
        "Failed\n\n",
        "too many rows were set aside",
        "exceeded timeout of 60.0",
        "batch-inference/then",
    )
    await_that(lambda: all(map(is_told, reasons)), lambda: Inbox.letters)
    subjects = {letter["subject"] for letter in Inbox.letters}
    assert subjects == {"A batch inference run failed", "batch-inference/then is overdue"}
    assert not is_told(STOPPED)


@pytest.mark.parametrize("name", ["batch-inference/misspelt", "misspelt"])
def test_a_deployment_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(InvalidSpec, match=f"deployment: '{name}' is not on this server"):
        run_after(name, then="batch-inference/other")


def test_an_automation_is_made_once(deploy: Any) -> None:
    (once,) = deploy(retry_crashed_runs())
    assert deploy(retry_crashed_runs(max_runs=7)) == [once]
    with get_client(sync_client=True) as client:
        found = client.read_automation(once)
    assert found
    assert "7 times" in found.description
    assert StateType.SCHEDULED in [getattr(each, "state", None) for each in found.actions]


def test_a_notebook_deploys_too(deploy: Any) -> None:
    """Its event loop runs already."""

    async def cell() -> list[UUID]:
        return deploy(retry_crashed_runs()) + deploy(retry_crashed_runs(max_runs=3))

    (made, again) = asyncio.run(cell())
    with get_client(sync_client=True) as client:
        found = client.read_automation(made)
    assert made == again
    assert found is not None
    assert found.description.endswith("3 times at most.")


def test_an_automation_that_is_switched_off_stays_so(deploy: Any) -> None:
    (made,) = deploy(retry_crashed_runs())
    with get_client(sync_client=True) as client:
        client.pause_automation(made)
        deploy(retry_crashed_runs(max_runs=7))
        (found,) = client.read_automations_by_name(retry_crashed_runs().name)
    assert (found.enabled, found.description) == (False, retry_crashed_runs(7).description)
