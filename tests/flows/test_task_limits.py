"""Limits of Prefect on tasks of a tag that our flows are called with."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect import tags
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import (
    GlobalConcurrencyLimitCreate,
    GlobalConcurrencyLimitUpdate,
)
from prefect.concurrency.sync import concurrency
from prefect.runtime import flow_run
from prefect.states import Cancelling

from flows import attempts
from flows.batch_inference import batch_inference
from tasks import run
from tasks.attempt import Attempt
from tasks.errors import RunStopped, Unreachable
from tests.flows.conftest import published, spec_of

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


@pytest.fixture
def client() -> Iterator[SyncPrefectClient]:
    with get_client(sync_client=True) as client:
        yield client


def limited(client: SyncPrefectClient, most: int) -> str:
    """A tag of which so many tasks may run at once."""
    tag = f"ours-{uuid4()}"
    limit = GlobalConcurrencyLimitCreate(name=f"tag:{tag}", limit=most)
    client.create_global_concurrency_limit(limit)
    return tag


@pytest.fixture
def before_each_attempt(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is called once an attempt is made, and before its tasks begin; each for another one."""
    calls: list[Any] = []

    def next_attempt(*given: Any) -> Attempt:
        attempt = attempts_next(*given)
        if calls:
            calls.pop(0)()
        return attempt

    attempts_next = run.next_attempt
    monkeypatch.setattr(attempts, "next_attempt", next_attempt)
    return calls


@pytest.mark.parametrize("most", [1, 3])
def test_stages_that_take_turns_are_done(
    numbers: Path, client: SyncPrefectClient, most: int
) -> None:
    with tags(limited(client, most)):
        batch_inference(spec_of(numbers))
    assert len(published(spec_of(numbers))) == 1000


@pytest.mark.parametrize("again", [0, 1])
def test_a_task_that_may_not_begin_is_a_trouble_that_may_pass(
    numbers: Path, client: SyncPrefectClient, before_each_attempt: list[Any], again: int
) -> None:
    """Nobody else would see that: the run would wait for its job for ever."""
    tag = limited(client, 1)

    def let(most: int) -> None:
        limit = GlobalConcurrencyLimitUpdate(limit=most)
        client.update_global_concurrency_limit(f"tag:{tag}", limit)

    before_each_attempt += [lambda: let(0), lambda: let(again)]
    spec = spec_of(numbers, retries={"max_attempts": 2})
    with tags(tag):
        if again:
            assert batch_inference(spec)["attempts"] == 2
            return
        told = r"Prefect does not let the task of a stage begin: .* 422 .* greater than the limit"
        with pytest.raises(Unreachable, match=told):
            batch_inference(spec)


def test_a_run_that_waits_for_its_turn_is_cancelled_like_others(
    numbers: Path,
    client: SyncPrefectClient,
    before_each_attempt: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for each in ("flows.cancellation.LOOK_EVERY_SECONDS", "tasks.attempt.MARK_EVERY_SECONDS"):
        monkeypatch.setattr(each, 0.2)
    tag, others = limited(client, 1), ExitStack()

    def cancel_while_another_has_its_turn() -> None:
        others.enter_context(concurrency(f"tag:{tag}"))
        client.set_flow_run_state(UUID(str(flow_run.id)), Cancelling())

    stop = Attempt.stop

    def stop_both(attempt: Attempt) -> None:
        stop(attempt)
        others.close()  # until then Prefect keeps the process, whose thread waits

    before_each_attempt.append(cancel_while_another_has_its_turn)
    monkeypatch.setattr(Attempt, "stop", stop_both)
    with tags(tag), pytest.raises(RunStopped):
        batch_inference(spec_of(numbers))
    assert not Path(spec_of(numbers).sink.path).exists()
