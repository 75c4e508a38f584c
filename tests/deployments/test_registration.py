"""What the stack registers does what it is for, on a real server."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.states import Pending, Running

from deployments.stack import registration
from deployments.stack.registration import QUEUES, make_queue
from flows.backfill import backfill
from flows.batch_inference import batch_inference

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


def test_of_two_deployments_in_a_queue_one_runs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "POOL", "queued")
    soon = datetime.now(UTC) + timedelta(minutes=1)
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="queued", type="process"), overwrite=True)
        for _ in range(2):
            make_queue(client, QUEUES[0])
        place: Any = {"work_pool_name": "queued", "work_queue_name": QUEUES[0]}
        flows: list[Any] = [batch_inference, backfill]
        hourly, weekly = (
            client.create_deployment(client.create_flow(flow), name=flow.name, **place)
            for flow in flows
        )

        def to_start() -> set[object]:
            """Runs that a worker would start now."""
            found = client.get_scheduled_flow_runs_for_work_pool("queued", scheduled_before=soon)
            return {each.flow_run.id for each in found}

        first = client.create_flow_run_from_deployment(hourly).id
        assert to_start() == {first}
        client.set_flow_run_state(first, Pending())
        client.set_flow_run_state(first, Running())
        second = client.create_flow_run_from_deployment(weekly).id
        assert to_start() == set()
        client.delete_flow_run(first)
        assert to_start() == {second}
