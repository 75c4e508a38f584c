"""What Prefect calls once a run was cancelled: its job is stopped, and the run said to be over."""

from datetime import datetime
from typing import Any
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.context import SyncClientContext
from prefect.states import Cancelled

from flows.meant_time import time_meant_by
from flows.server_away import has_come_to_its_end
from tasks.errors import BatchInferenceError
from tasks.periods import EVERY_DAY, portions
from tasks.running_jobs import stop_jobs
from tasks.scheduled import at_time
from tasks.spec import BatchInferenceSpec


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
    begun = {run.name for run in unfinished_runs_in(flow_run.id)}
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


def unfinished_runs_in(flow_run: UUID, of: str | None = None) -> list[FlowRun]:
    """The flow runs that a flow run has begun and that have not completed.

    Args:
        flow_run: its id.
        of: only those of the flow of this name.
    """
    flow = FlowFilter(name=FlowFilterName(any_=[of])) if of else None
    unfinished = FlowRunFilter(
        parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[flow_run]),
        state=FlowRunFilterState(type=FlowRunFilterStateType(not_any_=[StateType.COMPLETED])),
    )
    with get_client(sync_client=True) as client:
        return client.read_flow_runs(flow_filter=flow, flow_run_filter=unfinished)


def as_time(given: Any) -> datetime | None:
    """A time among a flow run's parameters, which are JSON."""
    return datetime.fromisoformat(given) if isinstance(given, str) else given


def say_cancelled(flow: Any, flow_run: Any, state: Any) -> None:
    """Prefect's hook, the last one: it stays `Cancelling` where there is no worker to say more."""
    if is_in_its_process():
        say_over(flow_run.id, "stopped, and can be resumed")


def say_stopped(flow: Any, flow_run: Any, state: Any) -> None:
    """The same for a flow that begins anew when it is run again."""
    if is_in_its_process():
        say_over(flow_run.id, "stopped")


def is_in_its_process() -> bool:
    """Whether a hook is called where its flow run is, and not by a worker.

    A worker says next, by force, that the run is cancelled: whoever had it begun again in between,
    as by the button for that, would find it cancelled once more.
    """
    return SyncClientContext.get() is not None  # a flow has one of its own, until it has ended


def say_over(flow_run: UUID, message: str) -> None:
    """Say that a flow run that was to end has ended.

    Args:
        flow_run: its id.
        message: what it is then, where it was not done by the time that it would have been stopped:
            Prefect lets no run be `Completed` that somebody has cancelled.
    """
    if has_come_to_its_end(flow_run):
        message = "done before it could be stopped"
    if state_of(flow_run).is_cancelling():
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(flow_run, Cancelled(message=message))


def state_of(flow_run: UUID | str) -> State:
    """What Prefect's server says of a flow run."""
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(UUID(str(flow_run))).state
    assert state is not None  # it has begun
    return state
