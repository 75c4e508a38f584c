"""Runs whose process went down with the stack: nobody else would ever say that they are over."""

from collections.abc import Callable
from itertools import count
from typing import Any
from uuid import UUID

import psutil

from deployments.stack.registration import prefect_client
from deployments.stack.state import POOL, State

RUN_ID = "PREFECT__FLOW_RUN_ID"
"""In the environment of each run's process, which can outlive its worker."""
PAGE = 200
"""Runs that the server tells of at once, by its own default limit."""
MESSAGE = "the stack went down; run again to continue where it stopped"


def crash_lost_runs(state: State, tell: Callable[[str], None]) -> None:
    """Mark runs as crashed that are under way by what the server knows, and have no process.

    Else they would run for ever, and hold their deployment's places against all later ones; so
    would those that they have begun.
    """
    from prefect.states import Cancelled, Crashed

    from flows.orphaned_runs import end_runs_of

    with prefect_client(state) as client:
        for run, name, is_cancelled in runs_under_way(client):
            if run not in runs_with_a_process():
                tell(f"run {name} went down with the stack")
                # A crashed one is started again, which nobody wants of one that was cancelled.
                ended = Cancelled if is_cancelled else Crashed
                end_runs_of(client, run, ended(message=MESSAGE))
                client.set_flow_run_state(run, ended(message=MESSAGE), force=True)


def runs_under_way(client: Any) -> list[tuple[UUID, str, bool]]:
    """Runs of the work pool that have begun and not ended, and whether somebody cancelled them."""
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterState,
        FlowRunFilterStateType,
        WorkPoolFilter,
        WorkPoolFilterName,
    )
    from prefect.client.schemas.objects import StateType
    from prefect.client.schemas.sorting import FlowRunSort

    begun = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]
    of_type = FlowRunFilterState(type=FlowRunFilterStateType(any_=begun))
    found: list[tuple[UUID, str, bool]] = []
    for offset in count(0, PAGE):
        page = client.read_flow_runs(
            flow_run_filter=FlowRunFilter(state=of_type),
            work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[POOL])),
            sort=FlowRunSort.ID_DESC,
            limit=PAGE,
            offset=offset,
        )
        found += [(run.id, run.name, run.state_type == StateType.CANCELLING) for run in page]
        if len(page) < PAGE:
            break
    return found


def runs_with_a_process() -> set[UUID]:
    """Runs that a process of this machine has begun."""
    found = set()
    for process in psutil.process_iter():
        try:
            run = process.environ().get(RUN_ID)
        except (psutil.Error, OSError):
            continue
        if run:
            found.add(UUID(run))
    return found
