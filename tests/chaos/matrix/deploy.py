"""`python -m tests.chaos.matrix.deploy POOL`: the flow as a deployment on a pool of processes."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.exceptions import ObjectAlreadyExists

REPOSITORY = Path(__file__).resolve().parents[3]
ENTRYPOINT = "flows/batch_inference.py:batch_inference"


def main(pool: str) -> None:
    """Make the pool and the deployment, where they are not there yet."""
    with get_client(sync_client=True) as client, suppress(ObjectAlreadyExists):
        client.create_work_pool(WorkPoolCreate(name=pool, type="process"))
    # Prefect's types leave open whether this must be awaited; here it must not.
    deployable: Any = flow.from_source(source=str(REPOSITORY), entrypoint=ENTRYPOINT)
    deployable.deploy(name=pool, work_pool_name=pool, print_next_steps=False, ignore_warnings=True)


if __name__ == "__main__":
    main(sys.argv[1])
