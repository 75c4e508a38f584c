"""A server hears of a run that its process lives, with nothing set, until the run has ended."""

import time
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.events import emit_event
from prefect.events.worker import EventsWorker
from prefect.flow_engine import run_flow
from prefect.runtime import flow_run
from prefect.settings import get_current_settings

from flows import heartbeats
from flows.backfill import backfill
from flows.batch_inference import batch_inference
from flows.preview import preview
from flows.redrive import redrive
from flows.server_away import call
from tests.flows.conftest import spec_of
from tests.flows.jobs_cluster import await_that


def heard(run: str, what: str = heartbeats.HEARTBEAT) -> list[dict[str, Any]]:
    """Heartbeats of a flow run that the server has, or other words of it."""
    asked = {
        "event": {"name": [what]},
        "resource": {"id": [f"prefect.flow-run.{run}"]},
    }
    with get_client(sync_client=True) as client:
        answer = client._client.post("/events/filter", json={"filter": asked, "limit": 50})
    events: list[dict[str, Any]] = answer.raise_for_status().json()["events"]
    return events


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[Thread]:
    """Those that give signs of life, often."""
    noted = list[Thread]()

    class Noted(Thread):
        def start(self) -> None:
            noted.append(self)
            super().start()

    monkeypatch.setattr(heartbeats, "EVERY_SECONDS", 0.1)
    monkeypatch.setattr(heartbeats, "Thread", Noted)
    return noted


def await_ends(threads: list[Thread]) -> None:
    await_that(lambda: not any(each.is_alive() for each in threads), "more signs of life are given")


@pytest.mark.parametrize("ahead", [-600, 600])
@pytest.mark.usefixtures("prefect_server")
def test_signs_of_life_come_until_the_run_has_ended(
    threads: list[Thread], monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    """By the server's clock: it takes a run for dead whose last one was long ago on that."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> "Clock":
            return super().now(tz) + timedelta(seconds=ahead)

    given = list[object]()

    def emit_and_note(*about: Any, **more: Any) -> None:
        given.append(emit_event(*about, **more))

    monkeypatch.setattr(heartbeats, "datetime", Clock)
    monkeypatch.setattr(heartbeats, "emit_event", emit_and_note)

    @flow
    def living() -> str:
        with heartbeats.heartbeats():
            await_that(lambda: len(given) >= 3, "no heartbeats")
        return str(flow_run.id)

    run = living()
    await_ends(threads)
    EventsWorker.drain_all()
    await_that(lambda: len(heard(run)) >= 3, "no heartbeats")
    told = heard(run)
    with get_client(sync_client=True) as client:
        ended = client.read_flow_run(UUID(run))
    assert ended.start_time
    assert ended.end_time
    times = [datetime.fromisoformat(each["occurred"]) for each in told]
    assert ended.start_time - timedelta(seconds=60) < min(times)  # what it says may be seconds old
    assert max(times) < ended.end_time
    named = {"prefect.resource.role": "flow", "prefect.resource.name": "living"}
    assert named | {"prefect.resource.id": f"prefect.flow.{ended.flow_id}"} in told[0]["related"]


@pytest.mark.usefixtures("prefect_server")
def test_signs_of_life_go_on_while_the_process_waits_to_try_again(
    threads: list[Thread], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be taken for dead, and begun in another one beside it."""
    given, begun, failed = list[float](), list[float](), list[float]()
    monkeypatch.setattr(heartbeats, "emit_event", lambda *_, **__: given.append(time.monotonic()))

    @flow(retries=1, retry_delay_seconds=3)
    def fails_twice() -> None:
        begun.append(time.monotonic())
        try:
            with heartbeats.heartbeats():
                raise ValueError("again")
        finally:
            failed.append(time.monotonic())

    with get_client(sync_client=True) as client:
        deployment = client.create_deployment(client.create_flow(fails_twice), "fails-twice")
        run = client.create_flow_run_from_deployment(deployment)
    run_flow(fails_twice, flow_run=run, return_type="state")
    assert len(threads) == len(begun) == 2
    assert any(failed[0] < each < begun[1] for each in given)
    await_ends(threads)


@pytest.mark.usefixtures("prefect_server")
def test_flows_that_publish_and_a_preview_give_them(numbers: Path) -> None:
    spec = spec_of(numbers)
    states = [
        each(spec, return_state=True) for each in (preview, batch_inference, redrive, backfill)
    ]
    runs = [state.state_details.flow_run_id for state in states]
    EventsWorker.drain_all()
    await_that(lambda: all(map(heard, map(str, runs))), "no heartbeats")


@pytest.mark.usefixtures("prefect_server")
def test_a_command_waits_for_no_thread_of_prefects_own_heartbeats() -> None:
    @flow
    def asked() -> dict[str, Any]:
        return {"every": get_current_settings().flows.heartbeat_frequency}

    every = get_current_settings().flows
    every.heartbeat_frequency = 30
    try:
        assert asked() == {"every": 30}
        assert call(asked) == {"every": None}
    finally:
        every.heartbeat_frequency = None
