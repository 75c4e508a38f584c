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
from prefect import flow, task
from prefect.client.orchestration import get_client

from flows.batch_inference import batch_inference
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

BATCHES = 20
TIMEOUT_SECONDS = 6


@pytest.fixture
def slow(numbers: Path) -> BatchInferenceSpec:
    """Its batches take much longer than there is time."""
    model = {"kind": "python", "class": "predictors:Double", "init": {"seconds": 1.5}}
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
