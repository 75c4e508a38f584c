"""Runs that a flow run has begun and its process has left behind: nobody else would end them."""

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

GONE = "its process and the flow run that started it are gone: run that again to continue here"
CANCELLED = "the flow run that started it was cancelled"


def end_its_runs(flow: Any, flow_run: Any, state: Any) -> None:
    """Prefect's hook for a flow run that failed, crashed or was cancelled.

    After a crash it is called by the worker, beside which the flow run may be started again: what
    that begins is let be, and what was left before it that one ends itself.
    """
    with get_client(sync_client=True) as client:
        if state.is_cancelling() or state.is_cancelled():
            end_runs_of(client, flow_run.id, Cancelled(message=CANCELLED))
            return
        left = runs_left_by(client, flow_run.id)
        # Asked after them, so that none of them is of a start that is not seen here. What tells
        # them apart is no clock: each machine has its own, and it may jump.
        now = client.read_flow_run(flow_run.id).state
        if now is None or not now.is_running():
            end(client, left, Crashed(message=GONE))


def end_runs_of(client: SyncPrefectClient, parent: UUID, ended: State) -> None:
    """Say in Prefect that runs are over which a flow run has begun in its process and not ended.

    Args:
        client: of the server.
        parent: the flow run's id.
        ended: how they ended.
    """
    end(client, runs_left_by(client, parent), ended)


def runs_left_by(client: SyncPrefectClient, parent: UUID) -> list[UUID]:
    """Runs under way that a flow run has begun in its process.

    Those of deployments, as by `run_deployment`, have processes of their own, and may live.
    """
    under_way = FlowRunFilter(
        parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[parent]),
        state=FlowRunFilterState(
            type=FlowRunFilterStateType(any_=[StateType.PENDING, StateType.RUNNING])
        ),
    )
    runs = client.read_flow_runs(flow_run_filter=under_way)
    return [run.id for run in runs if run.deployment_id is None]


def end(client: SyncPrefectClient, runs: list[UUID], ended: State) -> None:
    """Say in Prefect how runs ended."""
    for run in runs:
        client.set_flow_run_state(run, ended)
