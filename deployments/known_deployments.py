"""What a Prefect server has of deployments: of a file's, and of others."""

from typing import TYPE_CHECKING, Any

from deployments.misspelt import flow_of
from deployments.prefect_file import Deployment

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.responses import DeploymentResponse

Known = dict[tuple[str, str], "DeploymentResponse"]
"""A server's deployments by entrypoint and name."""


def known_of(client: "SyncPrefectClient", wanted: list[Deployment]) -> Known:
    """What a server has of some deployments."""
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName

    names = DeploymentFilterName(any_=[each.name for each in wanted])
    found = all_deployments(client, deployment_filter=DeploymentFilter(name=names))
    return {(str(each.entrypoint), each.name): each for each in found}


def moved(client: "SyncPrefectClient", wanted: list[Deployment], known: Known) -> Known:
    """What a server has under the entrypoints that deployments of a file had before.

    To Prefect a deployment is the same by its flow's name and its own, wherever its code lies.
    """
    found: Known = {}
    for each in wanted:
        namesakes = [old for (_, name), old in known.items() if name == each.name]
        if not namesakes or (each.entrypoint, each.name) in known:
            continue
        flow = flow_of(each.entrypoint)
        for old in namesakes:
            if flow and client.read_flow(old.flow_id).name == flow.name:
                found[each.entrypoint, each.name] = old
    return found


def left_behind(client: "SyncPrefectClient", wanted: list[Deployment]) -> list[str]:
    """Deployments of the same work pools that are not among these, and start runs by themselves.

    One that was renamed in its file, or taken out, is such a one.
    """
    from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName

    pools = WorkPoolFilterName(any_=[each.work_pool.name for each in wanted])
    found = all_deployments(client, work_pool_filter=WorkPoolFilter(name=pools))
    named = {(each.entrypoint, each.name) for each in wanted}
    return [
        f"{client.read_flow(each.flow_id).name}/{each.name}"
        for each in found
        if (each.entrypoint, each.name) not in named
        and not each.paused
        and any(schedule.active for schedule in each.schedules)
    ]


def all_deployments(client: "SyncPrefectClient", **filters: Any) -> "list[DeploymentResponse]":
    """A server's deployments, of which it tells 200 at a time.

    Args:
        client: of the server.
        filters: as `read_deployments` takes them.
    """
    from prefect.client.schemas.sorting import DeploymentSort

    found: list[DeploymentResponse] = []
    in_order = {**filters, "sort": DeploymentSort.NAME_ASC}
    while page := client.read_deployments(**in_order, offset=len(found)):
        found += page
    return found
