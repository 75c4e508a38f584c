"""Which workers of each stage have work in hand now, as Ray's executor knows it."""

from typing import Any

from ray.data._internal.execution.operators.actor_pool_map_operator import ActorPoolMapOperator

from tasks.ray_job.counts import STAGES
from tasks.ray_job.occupancy import Sight


def sights_of(executor: Any) -> dict[str, Sight]:
    """Each stage that is not done; the stages of operators that Ray has fused see the same.

    Called many times a second: it only looks at what the executor has at hand.
    """
    return {
        stage: sight(operator, state)
        for operator, state in executor._topology.items()
        if not operator.has_execution_finished()
        for stage in STAGES
        if stage in operator.name.lower()
    }


def sight(operator: Any, state: Any) -> Sight:
    """One operator's workers."""
    queued = state.total_enqueued_input_blocks()
    if not isinstance(operator, ActorPoolMapOperator):
        active = operator.num_active_tasks()
        return Sight(active, active, queued)
    running = operator._actor_pool._running_actors
    replicas = {
        actor._actor_id.hex(): each.num_tasks_in_flight > 0 for actor, each in running.items()
    }
    return Sight(sum(replicas.values()), len(replicas), queued, replicas)
