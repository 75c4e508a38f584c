"""Where a job stands, and what it holds, by what Ray's executor says."""

from types import SimpleNamespace
from typing import Any

import pytest


def executor(states: dict[str, int]) -> Any:
    """A job of replicas with two cores and a GPU each, and of one worker that reads."""
    from ray.data._internal.execution.interfaces import ExecutionResources
    from ray.data._internal.execution.operators import actor_pool_map_operator as ray_pool

    replica = ExecutionResources(cpu=2.0, gpu=1.0)
    states = {"running": 0, "pending": 0, "restarting": 0, **states}

    class Pool(ray_pool.ActorPoolMapOperator):
        def __init__(self) -> None:
            """Without workers."""

        def get_actor_info(self) -> Any:
            return SimpleNamespace(**states)

        def per_task_resource_allocation(self) -> ExecutionResources:
            return replica

    used = replica.scale(sum(states.values())).add(ExecutionResources(cpu=1.0))
    # Another job shares the cluster: of two claims on a node's one GPU neither gets it.
    manager = SimpleNamespace(
        get_global_usage=lambda: used, get_global_limits=lambda: ExecutionResources(cpu=1.0)
    )
    return SimpleNamespace(_resource_manager=manager, _topology={Pool(): None})


@pytest.mark.parametrize(
    ("states", "placed", "held"),
    [
        ({"running": 2}, 0, (5.0, 2.0)),
        ({"running": 1, "pending": 2}, 2, (5.0, 2.0)),
        ({"pending": 2}, 0, (1.0, 0.0)),
        ({"running": 1, "restarting": 1}, 1, (3.0, 1.0)),
    ],
)
def test_what_runs_is_held_and_what_waits_for_a_place_is_not(
    states: dict[str, int],
    placed: int,
    held: tuple[float, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever Ray would let the job have."""
    from tasks.ray_job import executor_status

    monkeypatch.setattr(executor_status, "num_placed", lambda operator: placed)
    assert executor_status.held_now(executor(states)) == held
