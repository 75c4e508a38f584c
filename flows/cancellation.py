"""What happens when a run is cancelled: its job is stopped, wherever it runs, and it stays so."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from datetime import datetime
from threading import Event, Thread
from typing import Any
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import State, StateType
from prefect.context import FlowRunContext
from prefect.states import Cancelled, Cancelling

from flows.meant_time import time_meant_by
from tasks.artifacts import not_vital
from tasks.errors import BatchInferenceError, RunStopped
from tasks.periods import EVERY_DAY, portions
from tasks.running_jobs import stop_jobs
from tasks.scheduled import at_time
from tasks.spec import BatchInferenceSpec

LOOK_EVERY_SECONDS = 10.0
STARTED_FOR = "PREFECT__FLOW_RUN_ID"
"""In the environment of a process that a worker has started: it ends one that is cancelled."""


def stop_its_jobs(flow: Any, flow_run: Any, state: Any) -> None:
    """Prefect's `on_cancellation` hook; called in a process of its own, after the run's has ended.

    All that it needs is in the flow run: its parameters, and when it was to start. Jobs that
    another flow run has followed last, at work on the same output, are left alone.
    """
    spec = BatchInferenceSpec.model_validate(flow_run.parameters["spec"])
    stop_jobs(at_time(spec, time_meant_by(flow_run)), str(flow_run.id))


def stop_backfill_jobs(flow: Any, flow_run: Any, state: Any) -> None:
    """The same for a backfill, whose jobs are those of the periods that it has begun.

    On the other outputs of its range others may be at work.
    """
    given = flow_run.parameters
    spec = BatchInferenceSpec.model_validate(given["spec"])
    start, end = (as_time(given.get(name)) for name in ("start", "end"))
    begun = unfinished_runs_in(flow_run.id)
    errors = []
    # The one at work is the last that was begun; trouble with another keeps it from nothing.
    for portion in reversed(portions(spec, start, end, given.get("every") or EVERY_DAY)):
        # By name: Prefect may use the run of another period again, and changes no more of it.
        if portion.flow_run_name not in begun:
            continue
        try:
            stop_jobs(portion.spec, str(flow_run.id))
        except BatchInferenceError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def unfinished_runs_in(flow_run: UUID) -> set[str]:
    """Names of the flow runs that a flow run has begun and that have not completed."""
    unfinished = FlowRunFilter(
        parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[flow_run]),
        state=FlowRunFilterState(type=FlowRunFilterStateType(not_any_=[StateType.COMPLETED])),
    )
    with get_client(sync_client=True) as client:
        return {run.name for run in client.read_flow_runs(flow_run_filter=unfinished)}


def as_time(given: Any) -> datetime | None:
    """A time among a flow run's parameters, which are JSON."""
    return datetime.fromisoformat(given) if isinstance(given, str) else given


@contextmanager
def staying_stopped() -> Iterator[None]:
    """A block of a flow: who stops the run there has stopped it, however often it is to be retried.

    Raises:
        RunStopped: as the block does.
    """
    try:
        yield
    except RunStopped:
        with not_vital("that the run was stopped"):
            retry_no_more()
        raise


def refuse_cancelled_meanwhile() -> None:
    """See that nobody has cancelled the flow run while it waited for its retry.

    Prefect lets it begin all the same: it has nobody whom to tell, where no worker has started it.

    Raises:
        RunStopped: somebody has.
    """
    context = FlowRunContext.get()
    if context is None or context.flow_run is None or context.flow_run.run_count < 2:
        return
    with get_client(sync_client=True) as client:
        states = client.read_flow_run_states(context.flow_run.id)
    # Whoever has it begun again on purpose has it scheduled first.
    before = sorted(states, key=lambda state: state.timestamp)[-2:-1]
    if any(state.is_cancelled() or state.is_cancelling() for state in before):
        raise RunStopped(
            "somebody has cancelled the flow run while it waited for its retry; run again to go on "
            "where it stopped"
        )


def retry_no_more() -> None:
    """Take back retries that somebody has asked the flow for."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None or not context.flow_run.empirical_policy.retries:
        return
    none = context.flow_run.empirical_policy.model_copy(update={"retries": 0})
    with get_client(sync_client=True) as client:
        client.update_flow_run(context.flow_run.id, empirical_policy=none)


@contextmanager
def heeding_cancellation(spec: BatchInferenceSpec, flow_runs: tuple[str, ...]) -> Iterator[None]:
    """A block in which jobs are stopped where somebody cancels the flow run, and no worker would.

    Prefect has nobody end what a command or a script has started, nor what a flow run has called in
    its own process, nor one that is said to be `Cancelled` without more ado, as by an automation:
    it would go on, and publish. A command that a worker's flow run has called outlives that.

    Args:
        spec: one with their output.
        flow_runs: ids of the flow run and of the one that has called it, where there is one.
    """
    if not flow_runs:
        yield
        return
    over, workers = Event(), os.environ.get(STARTED_FOR)
    # Who has called a worker's own run is in another process, and Prefect cancels that run with it.
    here = flow_runs[:1] if workers == flow_runs[0] else flow_runs
    watched = dict.fromkeys(filter(None, (*here, workers)))

    def watch() -> None:
        while not over.wait(LOOK_EVERY_SECONDS):
            with suppress(Exception):  # server or storage may be away: the next look counts
                # Again and again: its next job may not be there yet.
                if any(is_to_end(run, run in here, run == workers) for run in watched):
                    stop_jobs(spec, flow_runs[0])

    # Prefect knows by the context which server it is.
    Thread(target=copy_context().run, args=(watch,), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def is_to_end(flow_run: str, is_here: bool, has_worker: bool) -> bool:
    """Whether somebody has cancelled a flow run, and nobody else ends what it is at.

    Args:
        flow_run: its id.
        is_here: whether it is this process that it runs in.
        has_worker: whether a worker has started its process, and ends that.
    """
    state = state_of(flow_run)
    if state.is_cancelled() and is_here:
        # Nobody would hear of that, and how it ended would be said over it.
        cancel_in_earnest(flow_run)
    is_ended = is_here and has_worker
    return (state.is_cancelling() or state.is_cancelled()) and not is_ended


def cancel_in_earnest(flow_run: str) -> None:
    """Say that a flow run is to end, of which somebody has said that it has."""
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(UUID(flow_run), Cancelling(), force=True)


def state_of(flow_run: UUID | str) -> State:
    """What Prefect's server says of a flow run."""
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(UUID(str(flow_run))).state
    assert state is not None  # it has begun
    return state


def say_cancelled(flow: Any, flow_run: Any, state: Any) -> None:
    """Prefect's hook, the last one: it stays `Cancelling` where there is no worker to say more."""
    if state_of(flow_run.id).is_cancelling():
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(flow_run.id, Cancelled(message="stopped, and can be resumed"))
