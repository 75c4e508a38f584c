"""Flows that have a `timeout_seconds`, of ours or around ours, in whatever thread they run."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from anyio import fail_after
from prefect import flow, task
from prefect.client.orchestration import get_client

from flows.batch_inference import batch_inference
from flows.callers_time import deadline_of
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

BATCHES = 100
TIMEOUT_SECONDS = 9
"""Enough to begin, also on a busy machine, and for a few batches."""


@pytest.fixture
def slow(numbers: Path) -> BatchInferenceSpec:
    """Its batches take much longer than there is time."""
    model = {"kind": "python", "class": "predictors:Double", "init": {"seconds": 2.0}}
    stages = {"read": {"rows_per_batch": 1000 // BATCHES}}
    return spec_of(numbers, model=model, stages=stages)


def records(spec: BatchInferenceSpec) -> list[Path]:
    return [*Path(f"{spec.sink.path}.state/runs").glob("*/records/*.json")]


def test_one_of_ours_ends_in_a_thread_too(slow: BatchInferenceSpec) -> None:
    """Where no signal can wake whoever waits."""
    limited: Any = batch_inference.with_options(timeout_seconds=TIMEOUT_SECONDS)
    with ThreadPoolExecutor(1) as threads:
        state = threads.submit(copy_context().run, partial(limited, slow, return_state=True))
    assert state.result().name == "TimedOut"
    assert len(records(slow)) < BATCHES / 2, "its job went on"
    assert published(slow) == []


def by_a_task(spec: BatchInferenceSpec, runs: list[UUID]) -> Any:
    ours = batch_inference.with_options(on_running=[lambda _, run, state: runs.append(run.id)])

    @task
    def predict() -> None:
        ours(spec)

    @flow(timeout_seconds=TIMEOUT_SECONDS)
    def own() -> None:
        called = predict.submit()
        while True:  # in one piece nothing would end it beneath pytest, which has its own alarm
            called.wait(0.2)

    return own(return_state=True)


def by_a_thread_that_is_awaited(spec: BatchInferenceSpec, runs: list[UUID]) -> Any:
    ours = batch_inference.with_options(on_running=[lambda _, run, state: runs.append(run.id)])

    @flow(timeout_seconds=TIMEOUT_SECONDS)
    async def own() -> None:
        await asyncio.to_thread(ours, spec)

    call: Any = own(return_state=True)
    return asyncio.run(call)


@pytest.mark.parametrize("call", [by_a_task, by_a_thread_that_is_awaited])
def test_what_a_flow_has_called_in_another_thread_stops_once_its_time_is_up(
    call: Callable[[BatchInferenceSpec, list[UUID]], Any],
    slow: BatchInferenceSpec,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would go on, and publish, though the flow has failed long ago."""
    for each in ("flows.cancellation.LOOK_EVERY_SECONDS", "tasks.attempt.MARK_EVERY_SECONDS"):
        monkeypatch.setattr(each, 0.2)
    runs: list[UUID] = []
    assert call(slow, runs).name == "TimedOut"
    assert len(records(slow)) < BATCHES / 2, "its job went on"
    assert published(slow) == []
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(runs[0]).state
    assert state is not None
    assert state.is_failed()


def test_what_an_async_flow_calls_in_its_own_thread_keeps_to_its_time(
    slow: BatchInferenceSpec,
) -> None:
    """It waits for that, and could end nothing before it is done."""

    @flow(timeout_seconds=TIMEOUT_SECONDS)
    async def own() -> None:
        batch_inference(slow)

    call: Any = own(return_state=True)
    state = asyncio.run(call)
    assert state.is_failed()
    assert "than timeout_seconds of the flow that called it had left, " in state.message
    assert len(records(slow)) < BATCHES / 2, "its job went on"


@pytest.mark.parametrize("run_seconds", [None, 1.0, 100.0])
def test_the_shorter_of_two_limits_counts(numbers: Path, run_seconds: float | None) -> None:
    spec = spec_of(numbers, timeouts={"run_seconds": run_seconds})

    async def within(seconds: float | None) -> float | None:
        with fail_after(seconds):
            return deadline_of(spec).run_seconds

    assert asyncio.run(within(None)) == deadline_of(spec).run_seconds == run_seconds
    least = asyncio.run(within(50.0))
    assert least is not None
    assert least == 1.0 if run_seconds == 1.0 else 1.0 < least <= 50.0
