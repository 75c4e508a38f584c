"""When a flow run was to start; one within a flow of somebody's own, when that was to."""

from datetime import UTC, datetime
from typing import Any

from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext

from tasks.scheduled import time_of_flow_run


def time_to_start() -> datetime:
    """When the flow run that asks was to start."""
    context = FlowRunContext.get()
    assert context is not None
    run = outermost(context.flow_run)
    return run.expected_start_time or datetime.now(UTC)


def time_meant_by(flow_run: Any) -> datetime:
    """What a flow run, as Prefect keeps it, fills placeholders in with."""
    outer = outermost(flow_run)
    if outer is flow_run or flow_run.parameters.get("scheduled_time"):
        return time_of_flow_run(flow_run)
    return outer.expected_start_time or datetime.now(UTC)


def outermost(flow_run: Any) -> Any:
    """The flow run in whose process one has run, which it calls as a function of its own.

    That one may start late, or again, as after a crash: what it calls begins a run of its own then,
    and Prefect has it start at that moment. One of a deployment has a time of its own.
    """
    run = flow_run
    if is_called(run):
        with get_client(sync_client=True) as client:
            while is_called(run):
                caller: Any = client.read_task_run(run.parent_task_run_id).flow_run_id
                run = client.read_flow_run(caller)
    return run


def is_called(run: Any) -> bool:
    """Whether another flow has called a flow run's."""
    return bool(run.parent_task_run_id and not run.deployment_id)
