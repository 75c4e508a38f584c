"""Which runs a stack that comes up takes for lost."""

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import StateType
from prefect.states import Crashed

from deployments.stack.lost_runs import PAGE, runs_under_way
from flows.orphaned_runs import end_runs_of


class Server:
    """Tells of some runs at once, as Prefect's does."""

    def __init__(self, runs: int) -> None:
        self.runs = [
            SimpleNamespace(id=uuid4(), name=f"run {number}", state_type=StateType.RUNNING)
            for number in range(runs)
        ]

    def read_flow_runs(self, *, limit: int | None = None, offset: int = 0, **_: Any) -> list[Any]:
        return self.runs[offset : offset + min(limit or PAGE, PAGE)]


@pytest.mark.parametrize("runs", [0, 3, PAGE, 2 * PAGE + 50])
def test_runs_under_way_are_all_found_however_many(runs: int) -> None:
    server = Server(runs)
    assert runs_under_way(server) == [(run.id, run.name, False) for run in server.runs]


def test_what_a_lost_run_has_begun_as_a_deployments_is_no_part_of_its_process() -> None:
    """It may live, and be begun once more by whoever takes it for crashed."""
    own, deployed = (
        SimpleNamespace(id=uuid4(), deployment_id=deployment, created=None)
        for deployment in (None, uuid4())
    )
    ended = []
    client: Any = SimpleNamespace(
        read_flow_runs=lambda **_: [own, deployed],
        set_flow_run_state=lambda run, _: ended.append(run),
    )
    end_runs_of(client, uuid4(), Crashed())
    assert ended == [own.id]
