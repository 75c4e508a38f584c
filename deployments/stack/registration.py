"""What Prefect has to know before anything is deployed here: pool, block, automations."""

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deployments.stack.state import POOL, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prefect.client.orchestration import SyncPrefectClient

BLOCK = "ray"
"""The block RayCluster that the specs of deployments/specs name."""

QUEUES = ("digits", "texts")
"""Each of the deployments that write one output, of which one runs at a time."""


@contextmanager
def prefect_client(state: State) -> "Iterator[SyncPrefectClient]":
    """A client of the stack's own server, whatever server the surroundings are set to.

    Raises:
        Unreachable: it does not let us in, as with another password than its own.
    """
    from prefect.client.orchestration import get_client
    from prefect.settings import (
        PREFECT_API_AUTH_STRING,
        PREFECT_API_KEY,
        PREFECT_API_URL,
        temporary_settings,
    )

    from flows.named_server import trouble_told

    auth = os.environ.get("PREFECT_API_AUTH_STRING")
    ours = {PREFECT_API_URL: state.api_url, PREFECT_API_AUTH_STRING: auth}
    with (
        temporary_settings(ours, restore_defaults={PREFECT_API_KEY}),
        trouble_told(),
        get_client(sync_client=True) as client,
    ):
        yield client


def register(state: State) -> None:
    """Make pool, queues, automations and the block by which runs reach Ray, as they are now."""
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectNotFound
    from prefect.workers.process import ProcessWorker
    from pydantic import SecretStr

    from deployments.automations import deploy_automations
    from tasks.clusters.ray_cluster import RayCluster

    with prefect_client(state) as client:
        try:
            client.read_work_pool(POOL)
        except ObjectNotFound:
            template = ProcessWorker.get_default_base_job_template()
            pool = WorkPoolCreate(name=POOL, type="process", base_job_template=template)
            client.create_work_pool(pool)
        for queue in QUEUES:
            make_queue(client, queue)
        ray = RayCluster(address=state.ray_url, token=SecretStr(state.ray_token))
        ray.save(BLOCK, overwrite=True)
        deploy_automations()


def make_queue(client: "SyncPrefectClient", name: str) -> None:
    """Make a queue of the work pool from which one run starts at a time, unless it is there."""
    from prefect.exceptions import ObjectNotFound

    try:
        client.read_work_queue_by_name(name, work_pool_name=POOL)
    except ObjectNotFound:
        client.create_work_queue(name, work_pool_name=POOL, concurrency_limit=1)


def is_online(state: State) -> bool:
    """Whether the stack's worker has reported to the server, and lately."""
    from prefect.client.schemas.objects import WorkerStatus

    with prefect_client(state) as client:
        workers = client.read_workers_for_work_pool(POOL)
    return any(
        worker.name == state.worker_name and worker.status == WorkerStatus.ONLINE
        for worker in workers
    )
