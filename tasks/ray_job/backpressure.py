"""Keeps the model from running far ahead of the records: what a crash can cost is bounded."""

from typing import TYPE_CHECKING

from ray.data._internal.execution.backpressure_policy import (
    ENABLED_BACKPRESSURE_POLICIES,
    ENABLED_BACKPRESSURE_POLICIES_CONFIG_KEY,
)
from ray.data._internal.execution.backpressure_policy.backpressure_policy import BackpressurePolicy
from ray.data._internal.execution.operators.actor_pool_map_operator import ActorPoolMapOperator

from tasks.ray_job.writing import UNRECORDED_PER_REPLICA

if TYPE_CHECKING:
    from ray.data import DataContext
    from ray.data._internal.execution.interfaces import PhysicalOperator

BATCHES_PER_WRITE = "prefect-ray-data.batches-per-write"


class BoundUnrecorded(BackpressurePolicy):
    """Hands the model a batch only while few are predicted and not yet recorded.

    Ray's own limits look at bytes only: of small rows it would hold millions.
    """

    def can_add_input(self, op: "PhysicalOperator") -> bool:
        """Whether the model may take another batch; Ray asks before each."""
        if not isinstance(op, ActorPoolMapOperator) or not op.output_dependencies:
            return True
        write = op.output_dependencies[0]
        waiting = self._topology[write].total_enqueued_input_blocks()
        unrecorded = op.num_active_tasks() + waiting + write.num_active_tasks() * self.per_write
        replicas = max(1, op.get_actor_info().running)
        return bool(unrecorded < UNRECORDED_PER_REPLICA * replicas * self.per_write)

    @property
    def per_write(self) -> int:
        """Batches that one write waits for."""
        return int(self._data_context.get_config(BATCHES_PER_WRITE, 1))


def bound_unrecorded(context: "DataContext", batches_per_write: int) -> None:
    """Add the policy to Ray's own."""
    policies = [*ENABLED_BACKPRESSURE_POLICIES, BoundUnrecorded]
    context.set_config(ENABLED_BACKPRESSURE_POLICIES_CONFIG_KEY, policies)
    context.set_config(BATCHES_PER_WRITE, batches_per_write)
