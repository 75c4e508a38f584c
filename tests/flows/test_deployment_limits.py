"""Runs of a deployment with a `concurrency_limit`: their places, and how they are given back."""

from asyncio import CancelledError
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.exceptions import PrefectHTTPStatusError
from prefect.flow_engine import run_flow
from prefect.states import AwaitingRetry, Cancelled, Completed, Crashed, Pending, Running

from flows.batch_inference import batch_inference
from flows.cancellation import AWAITS_PLACE, BEGUN_AGAIN, cancel_in_earnest, is_to_end
from flows.cancellation_hooks import say_over
from tests.flows.conftest import published, spec_of
from tests.flows.jobs_cluster import await_that

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

BATCHES = 100


@pytest.fixture
def client() -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as client:
        yield client


def limited(client: SyncPrefectClient) -> UUID:
    """A deployment of which one run may be at work."""
    flow = client.create_flow(batch_inference)
    return client.create_deployment(flow, f"limited-{uuid4()}", concurrency_limit=1)


def placed_run(
    client: SyncPrefectClient, given: dict[str, Any], deployment: UUID | None = None
) -> tuple[UUID, UUID]:
    """A run that a worker is about to begin, and its lease on the only place."""
    run = client.create_flow_run_from_deployment(deployment or limited(client), parameters=given)
    state: Any = client.set_flow_run_state(run.id, Pending()).state
    lease = state.state_details.deployment_concurrency_lease_id
    assert lease is not None
    return run.id, lease


def places_taken(client: SyncPrefectClient, deployment: UUID) -> int | None:
    limit = client.read_deployment(deployment).global_concurrency_limit
    assert limit
    return limit.active_slots


def test_a_job_ends_at_once_whose_run_has_lost_its_place(
    numbers: Path, client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run that takes it would find this one at work on the output."""
    for name, value in (("RENEWAL_FRACTION", 0.001), ("RENEWAL_MAX_ATTEMPTS", 1)):
        monkeypatch.setattr(f"prefect.concurrency._leases._{name}", value)
    slow = {"kind": "python", "class": "predictors:Double", "init": {"seconds": 1.0}}
    stages = {"read": {"rows_per_batch": 1000 // BATCHES}}
    spec = spec_of(numbers, model=slow, stages=stages)
    given = {"spec": spec.as_json()}
    run, lease = placed_run(client, given)

    def records() -> list[Path]:
        return [*Path(f"{spec.sink.path}.state/runs").glob("*/records/*.json")]

    def lose() -> None:
        await_that(lambda: len(records()) > 3, "no batch is recorded")
        client.release_concurrency_slots_with_lease(lease)

    meanwhile = Thread(target=copy_context().run, args=(lose,))
    meanwhile.start()
    with pytest.raises(CancelledError):
        run_flow(batch_inference, flow_run=client.read_flow_run(run), parameters=given)
    meanwhile.join()
    assert client.read_flow_run(run).state_name == "Crashed"
    assert len(records()) < BATCHES / 2, "its job went on"
    assert published(spec) == []
    (page,) = Path(f"{spec.sink.path}.state").glob("runs/*/report.md")
    assert "it lost its slot of a concurrency limit" in page.read_text()


def test_a_run_that_is_cancelled_in_earnest_gives_its_place_back_once(
    numbers: Path, client: SyncPrefectClient
) -> None:
    """Else the server, where its lease comes to an end, takes the place from the next run too."""
    run, lease = placed_run(client, {"spec": spec_of(numbers).as_json()})
    client.set_flow_run_state(run, Running())
    cancel_in_earnest(str(run))
    say_over(run, "stopped")
    with pytest.raises(PrefectHTTPStatusError, match="410 Gone"):
        client.renew_concurrency_lease(lease_id=lease, lease_duration=60)


@pytest.mark.parametrize("by_force", [False, True])
@pytest.mark.parametrize("is_next_at_work", [False, True])
def test_a_run_that_is_cancelled_at_once_gives_back_no_place_but_its_own(
    numbers: Path, client: SyncPrefectClient, is_next_at_work: bool, by_force: bool
) -> None:
    """Prefect has it back by then, and would give it to a third run once the first has ended."""
    deployment = limited(client)
    given = {"spec": spec_of(numbers).as_json()}
    run, _ = placed_run(client, given, deployment)
    client.set_flow_run_state(run, Running())
    client.set_flow_run_state(run, Cancelled(), force=by_force)
    assert places_taken(client, deployment) == 0, "its job is still at work"
    if is_next_at_work:
        placed_run(client, given, deployment)
    cancel_in_earnest(str(run))
    cancel_in_earnest(str(run))  # another thread of it
    assert client.read_flow_run(run).state_name == "Cancelling"
    assert places_taken(client, deployment) == 1
    say_over(run, "stopped")
    assert client.read_flow_run(run).state_name == "Cancelled"
    assert places_taken(client, deployment) == int(is_next_at_work)


def test_a_run_whose_deployment_has_no_limit_needs_no_place(
    numbers: Path, client: SyncPrefectClient
) -> None:
    unlimited = client.create_deployment(client.create_flow(batch_inference), f"free-{uuid4()}")
    run = client.create_flow_run_from_deployment(unlimited, parameters={}, state=Running()).id
    client.set_flow_run_state(run, Cancelled())
    cancel_in_earnest(str(run))
    state: Any = client.read_flow_run(run).state
    assert (state.name, state.state_details.deployment_concurrency_lease_id) == ("Cancelling", None)


def test_a_run_is_cancelled_in_earnest_though_its_deployment_is_deleted(
    numbers: Path, client: SyncPrefectClient
) -> None:
    """A limit goes with it; a run that is at work does not, and would go on and publish."""
    deployment = limited(client)
    run, _ = placed_run(client, {"spec": spec_of(numbers).as_json()}, deployment)
    client.set_flow_run_state(run, Running())
    client.set_flow_run_state(run, Cancelled())
    client.delete_deployment(deployment)
    assert client.read_flow_run(run).deployment_id == deployment
    assert is_to_end(str(run), is_here=True, has_worker=False)
    assert client.read_flow_run(run).state_name == "Cancelling"


def test_a_run_is_cancelled_in_earnest_though_nobody_gives_a_lease(
    numbers: Path, client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would go on and publish."""

    def refused(*args: Any, **kwargs: Any) -> Any:
        request = httpx.Request("POST", "http://127.0.0.1/leases")
        response = httpx.Response(500, request=request)
        raise PrefectHTTPStatusError("no lease", request=request, response=response)

    run, _ = placed_run(client, {"spec": spec_of(numbers).as_json()})
    client.set_flow_run_state(run, Running())
    client.set_flow_run_state(run, Cancelled())
    monkeypatch.setattr(SyncPrefectClient, "increment_concurrency_slots_with_lease", refused)
    assert is_to_end(str(run), is_here=True, has_worker=False)
    assert client.read_flow_run(run).state_name == "Cancelling"


@pytest.mark.parametrize("is_over_to_prefect", [False, True])
def test_a_place_is_given_back_where_nobody_hears_what_it_was_taken_for(
    numbers: Path,
    client: SyncPrefectClient,
    is_over_to_prefect: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each look would take another one, for an hour."""
    deployment = limited(client)
    run, _ = placed_run(client, {"spec": spec_of(numbers).as_json()}, deployment)
    client.set_flow_run_state(run, Running())
    if is_over_to_prefect:
        client.set_flow_run_state(run, Cancelled())
    before = places_taken(client, deployment)

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise httpx.ReadTimeout("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(SyncPrefectClient, "set_flow_run_state", refused)
        with pytest.raises(httpx.ReadTimeout):
            cancel_in_earnest(str(run))
    assert places_taken(client, deployment) == before


def test_a_place_is_kept_where_only_the_answer_is_lost(
    numbers: Path, client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefect would take it from whoever has it by then, as the run ends."""
    deployment = limited(client)
    run, _ = placed_run(client, {"spec": spec_of(numbers).as_json()}, deployment)
    client.set_flow_run_state(run, Running())
    client.set_flow_run_state(run, Cancelled())
    set_state = SyncPrefectClient.set_flow_run_state

    def lose_answer(*args: Any, **kwargs: Any) -> Any:
        set_state(*args, **kwargs)
        raise httpx.ReadTimeout("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(SyncPrefectClient, "set_flow_run_state", lose_answer)
        with pytest.raises(httpx.ReadTimeout):
            cancel_in_earnest(str(run))
    assert client.read_flow_run(run).state_name == "Cancelling"
    assert places_taken(client, deployment) == 1
    say_over(run, "stopped")
    assert places_taken(client, deployment) == 0


@pytest.mark.parametrize("again", [*BEGUN_AGAIN, "somebody wants it after all"])
@pytest.mark.parametrize("is_next_at_work", [False, True])
def test_no_automation_begins_a_run_again_that_somebody_has_cancelled(
    numbers: Path, client: SyncPrefectClient, again: str, is_next_at_work: bool
) -> None:
    """It is a crash to Prefect where its process hears first that its place is gone."""
    spec, deployment = spec_of(numbers), limited(client)
    given = {"spec": spec.as_json()}
    run, _ = placed_run(client, given, deployment)
    meanwhile: list[Any] = [Running(), Cancelled(), Crashed(), AwaitingRetry(message=again)]
    for state in meanwhile:
        client.set_flow_run_state(run, state, force=state.is_crashed() or state.is_scheduled())
    if is_next_at_work:
        others, _ = placed_run(client, given, deployment)
        client.set_flow_run_state(run, Pending())
        assert client.read_flow_run(run).state_name == AWAITS_PLACE
        client.set_flow_run_state(others, Running())
        client.set_flow_run_state(others, Completed())
    client.set_flow_run_state(run, Pending())
    begun: Any = run_flow(
        batch_inference,
        flow_run=client.read_flow_run(run),
        parameters=given,
        return_type="state",
    )
    if again not in BEGUN_AGAIN:
        assert begun.name == "Completed"
        return
    assert client.read_flow_run(run).state_name == "Cancelled"
    assert published(spec) == []
