"""Work queues that a prefect.yaml names and its server lacks: Prefect makes them unasked."""

from typing import TYPE_CHECKING

from deployments.prefect_file import Deployment, WorkPool

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


def queues_lacking(client: "SyncPrefectClient", wanted: list[Deployment]) -> list[WorkPool]:
    """The queues of some deployments that are not on a server, each once.

    Args:
        client: of the server.
        wanted: the deployments.
    """
    from prefect.exceptions import ObjectNotFound

    named = {
        (each.work_pool.name, queue): each.work_pool
        for each in wanted
        # What Prefect fills in is not known here.
        if (queue := each.work_pool.work_queue_name) and "{{" not in f"{each.work_pool.name}{queue}"
    }
    lacking = []
    for (pool, queue), place in named.items():
        try:
            client.read_work_queue_by_name(queue, work_pool_name=pool)
        except ObjectNotFound:
            lacking.append(place)
    return lacking


def told_of_queue(place: WorkPool) -> str:
    """What to know of a queue that was made: a limit, by which runs take turns, is for people."""
    queue, pool = place.work_queue_name, place.name
    return (
        f"the work queue {queue} of the work pool {pool} was not there and has no limit, so that "
        f"its runs start side by side: prefect work-queue set-concurrency-limit {queue} 1 --pool "
        f"{pool} has them start one after the other"
    )
