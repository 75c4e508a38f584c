"""Where a job stands, and what it holds, by what Ray's executor says."""

from dataclasses import fields
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


class Actor:
    """A handle of a replica."""

    def __init__(self, name: str) -> None:
        self._actor_id = SimpleNamespace(hex=lambda: name)


@pytest.mark.parametrize(("num_reading", "is_fed"), [(0, False), (2, True)])
def test_replicas_that_begin_anew_and_find_no_place_are_told(
    num_reading: int, is_fed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.data._internal.execution.interfaces.op_runtime_metrics import OpRuntimeMetrics
    from ray.data._internal.execution.operators import actor_pool_map_operator as ray_pool

    from tasks.ray_job import executor_status
    from tasks.ray_job.lost_room import Replicas

    assert {each.name for each in fields(ray_pool._ActorState)} >= {"is_restarting"}
    measured = {"block_generation_time": 12.0, "num_task_outputs_generated": 4}
    assert {each.name for each in fields(OpRuntimeMetrics)} >= {*measured}
    begun = {Actor(name): SimpleNamespace(is_restarting=name != "a") for name in "abc"}
    job = executor({"running": 1, "restarting": 2})
    (infer,) = job._topology
    infer._actor_pool = SimpleNamespace(_running_actors=begun)
    infer._metrics = SimpleNamespace(**measured)
    read, write = (SimpleNamespace(num_active_tasks=lambda n=n: n) for n in (num_reading, 1))
    topology = SimpleNamespace(_topology=[read, infer, write])
    monkeypatch.setattr(executor_status, "with_process", lambda lost: len(lost & {"a", "c"}))
    assert executor_status.replicas_now(topology) == Replicas(3, 1, is_fed, batch_seconds=3.0)
    assert executor_status.replicas_now(SimpleNamespace(_topology=[read])) == Replicas()
