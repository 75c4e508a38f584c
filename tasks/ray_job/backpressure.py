"""When Ray may hand a stage more: our own rules beside its own."""

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

from ray.data._internal.execution.backpressure_policy import (
    ENABLED_BACKPRESSURE_POLICIES,
    ENABLED_BACKPRESSURE_POLICIES_CONFIG_KEY,
)
from ray.data._internal.execution.backpressure_policy.backpressure_policy import BackpressurePolicy
from ray.data._internal.execution.operators.actor_pool_map_operator import ActorPoolMapOperator
from ray.data._internal.execution.operators.task_pool_map_operator import TaskPoolMapOperator

from tasks.ray_job.local_autoscaling import LocalAutoscaler
from tasks.ray_job.writing import most_unrecorded

if TYPE_CHECKING:
    from ray.data import DataContext
    from ray.data._internal.execution.interfaces import PhysicalOperator

LAST_BATCHES = 5
BATCHES_PER_WRITE = "prefect-ray-data.batches-per-write"


@dataclass
class UsualSeconds:
    """What a batch usually takes: of the first ones most may be what is loaded and compiled."""

    seen: int = 0
    total: float = 0.0
    last: deque[float] = field(default_factory=lambda: deque(maxlen=LAST_BATCHES))

    def follow(self, outputs: int, total: float) -> None:
        """So many batches have taken so long, all together."""
        if outputs > self.seen:
            self.last.append((total - self.total) / (outputs - self.seen))
            self.seen, self.total = outputs, total

    @property
    def seconds(self) -> float:
        """Of one batch; 0 where none is known."""
        return median(self.last) if self.last else 0.0


class BoundUnrecorded(BackpressurePolicy):
    """Hands the model a batch only while few are predicted and not yet recorded.

    So what a crash can cost is bounded. Ray's own limits look at bytes only: of small rows it would
    hold millions.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.usual = UsualSeconds()

    def can_add_input(self, op: "PhysicalOperator") -> bool:
        """Whether the model may take another batch; Ray asks before each."""
        if not isinstance(op, ActorPoolMapOperator) or not op.output_dependencies:
            return True
        write = op.output_dependencies[0]
        waiting = self._topology[write].total_enqueued_input_blocks()
        unrecorded = op.num_active_tasks() + waiting + write.num_active_tasks() * self.per_write
        replicas = max(1, op.get_actor_info().running)
        found = op._metrics  # the property adds up more of them, and this is asked all the time
        self.usual.follow(found.num_task_outputs_generated, found.block_generation_time)
        seconds = self.usual.seconds
        return bool(unrecorded < most_unrecorded(seconds, self.per_write) * replicas)

    @property
    def per_write(self) -> int:
        """Batches that one write waits for."""
        return int(self._data_context.get_config(BATCHES_PER_WRITE, 1))


class AsManyAsGrown(BackpressurePolicy):
    """Runs no more tasks of a stage than it has grown to."""

    growing: ClassVar[LocalAutoscaler | None] = None

    def can_add_input(self, op: "PhysicalOperator") -> bool:
        """Whether another task may start; Ray asks before each."""
        if self.growing is None or not isinstance(op, TaskPoolMapOperator):
            return True
        return op.num_active_tasks() < self.growing.most[op]


def add_policies(
    context: "DataContext", batches_per_write: int, growing: LocalAutoscaler | None
) -> None:
    """Add ours to Ray's own."""
    policies = [*ENABLED_BACKPRESSURE_POLICIES, BoundUnrecorded, AsManyAsGrown]
    context.set_config(ENABLED_BACKPRESSURE_POLICIES_CONFIG_KEY, policies)
    context.set_config(BATCHES_PER_WRITE, batches_per_write)
    AsManyAsGrown.growing = growing  # settings are copied, and this is to be the same for all
