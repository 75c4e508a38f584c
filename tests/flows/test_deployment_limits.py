"""Runs of a deployment with a `concurrency_limit`: their places, and how they are given back."""

from asyncio import CancelledError
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.exceptions import PrefectHTTPStatusError
from prefect.flow_engine import run_flow
from prefect.states import Pending, Running

from flows.batch_inference import batch_inference
from flows.cancellation import cancel_in_earnest
from flows.cancellation_hooks import say_over
from tests.flows.conftest import published, spec_of
from tests.flows.jobs_cluster import await_that

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

BATCHES = 20


@pytest.fixture
def client() -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as client:
        yield client


def placed_run(client: SyncPrefectClient, given: dict[str, Any]) -> tuple[UUID, UUID]:
    """A run that a worker is about to begin, and its lease on the only place."""
    flow = client.create_flow(batch_inference)
    deployment = client.create_deployment(flow, f"limited-{uuid4()}", concurrency_limit=1)
    run = client.create_flow_run_from_deployment(deployment, parameters=given)
    state: Any = client.set_flow_run_state(run.id, Pending()).state
    lease = state.state_details.deployment_concurrency_lease_id
    assert lease is not None
    return run.id, lease


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
    assert "it has lost its place below a concurrency limit" in page.read_text()


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
