"""`python -m tests.chaos.matrix.deploy POOL`: the flow on a pool of processes; its automations."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.exceptions import ObjectAlreadyExists

from deployments.automations import deploy_automations
from deployments.dead_runs import end_silent_runs, retry_crashed_runs

REPOSITORY = Path(__file__).resolve().parents[3]
ENTRYPOINT = "flows/batch_inference.py:batch_inference"
SILENT_SECONDS = 45.0
"""Between two heartbeats there are 30."""


def main(pool: str) -> None:
    """Make pool, deployment and automations, where they are not there yet."""
    with get_client(sync_client=True) as client, suppress(ObjectAlreadyExists):
        client.create_work_pool(WorkPoolCreate(name=pool, type="process"))
    # Prefect's types leave open whether this must be awaited; here it must not.
    deployable: Any = flow.from_source(source=str(REPOSITORY), entrypoint=ENTRYPOINT)
    deploy_automations([end_silent_runs(SILENT_SECONDS), retry_crashed_runs()])
    deployable.deploy(name=pool, work_pool_name=pool, print_next_steps=False, ignore_warnings=True)


if __name__ == "__main__":
    main(sys.argv[1])
