"""Schedules that a prefect.yaml has made and names no more, as after a slug was renamed."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from deployments.prefect_file import Deployment

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import DeploymentResponse


def remove_lost_schedules(
    client: "SyncPrefectClient",
    found: "DeploymentResponse",
    wanted: Deployment,
    tell: Callable[[str], None],
) -> None:
    """Remove a deployment's lost schedules, and no run that is late.

    Those that people add in Prefect's pages have no slug, and stay where the file has none for the
    deployment; else Prefect has made all anew.

    Args:
        client: of the server.
        found: what it has.
        wanted: what the file says.
        tell: is told what has gone.
    """
    slugs = {each.slug for each in wanted.schedules}
    lost = [each for each in found.schedules if each.slug and each.slug not in slugs]
    if lost:
        keep_late_runs(client, found)
    for schedule in lost:
        client.delete_deployment_schedule(found.id, schedule.id)
        tell(
            f"the schedule {schedule.slug} of {found.name} is removed, since its file does not "
            "have it"
        )


def keep_late_runs(client: "SyncPrefectClient", deployment: "DeploymentResponse") -> None:
    """See that a deployment's runs which are late outlive one of its schedules.

    With it Prefect deletes all that have not begun, of whichever schedule, but for those that wait
    for their turn; and the days of those that are late, as where no worker ran, nobody would do.
    """
    from prefect.client.schemas import filters
    from prefect.client.schemas.objects import StateType
    from prefect.states import AwaitingConcurrencySlot

    from flows.heartbeats import time_at_server

    scheduled = filters.FlowRunFilterStateType(any_=[StateType.SCHEDULED])
    before = filters.FlowRunFilterNextScheduledStartTime(before_=time_at_server())
    late = filters.FlowRunFilter(
        state=filters.FlowRunFilterState(type=scheduled), next_scheduled_start_time=before
    )
    its = filters.DeploymentFilter(id=filters.DeploymentFilterId(any_=[deployment.id]))
    waits = AwaitingConcurrencySlot().name
    runs: list[FlowRun] = []
    while page := client.read_flow_runs(
        flow_run_filter=late, deployment_filter=its, offset=len(runs)
    ):
        runs += page
    for run in runs:
        # Others Prefect leaves; and a worker may have taken this one meanwhile.
        goes = run.auto_scheduled and not run.run_count and run.state_name != waits
        if goes and (state := client.read_flow_run(run.id).state) and state.is_scheduled():
            time = run.next_scheduled_start_time
            client.set_flow_run_state(run.id, AwaitingConcurrencySlot(scheduled_time=time))
