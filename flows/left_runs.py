"""Runs that a flow run has begun and its process has left behind: nobody else would end them."""

from datetime import datetime
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import State, StateType
from prefect.states import Cancelled, Crashed

GONE = "its process is gone, and so is the flow run that began it: run that again to go on here"
CANCELLED = "the flow run that began it was cancelled"


def end_its_runs(flow: Any, flow_run: Any, state: Any) -> None:
    """Prefect's hook for a flow run that failed, crashed or was cancelled.

    After a crash it is called by the worker, beside which the flow run may be started again: what
    that begins is let be.
    """
    with get_client(sync_client=True) as client:
        if state.is_cancelling() or state.is_cancelled():
            end_runs_of(client, flow_run.id, Cancelled(message=CANCELLED))
        else:
            end_runs_of(client, flow_run.id, Crashed(message=GONE), state.timestamp)


def end_runs_of(
    client: SyncPrefectClient, parent: UUID, ended: State, before: datetime | None = None
) -> None:
    """Say in Prefect that runs are over which a flow run has begun in its process and not ended.

    Those of deployments, as by `run_deployment`, have processes of their own, and may live.

    Args:
        client: of the server.
        parent: the flow run's id.
        ended: how they ended.
        before: only those that were begun before; where empty, all.
    """
    under_way = FlowRunFilter(
        parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[parent]),
        state=FlowRunFilterState(
            type=FlowRunFilterStateType(any_=[StateType.PENDING, StateType.RUNNING])
        ),
    )
    for left in client.read_flow_runs(flow_run_filter=under_way):
        if left.deployment_id is not None:
            continue
        if before is None or left.created is None or left.created < before:
            client.set_flow_run_state(left.id, ended)
