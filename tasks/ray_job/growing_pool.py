"""More replicas on this machine, where the work that is left pays for their start.

Ray adds replicas as soon as batches wait, and takes idle ones away. Both pay on a cluster; on a
machine of few cores, each start takes them from those who are at work.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ray.data import DataContext
from ray.data._internal.actor_autoscaler import default_actor_autoscaler
from ray.data._internal.actor_autoscaler.autoscaling_actor_pool import ActorPoolScalingRequest
from ray.data._internal.execution.operators.actor_pool_map_operator import ActorPoolMapOperator

from tasks.machine import free_memory

BATCHES_IN_HAND = 2
"""Of each replica: one at work, and the next one."""
MEMORY_TO_USE = 0.8
"""Of what is free: batches take some."""


def leave_pool_alone(context: DataContext) -> None:
    """Keep Ray from adding replicas, and from taking any away before the input ends."""
    context.autoscaling_config.actor_pool_util_upscaling_threshold = float("inf")
    context.autoscaling_config.actor_pool_util_downscaling_threshold = -1.0
    logging.getLogger(default_actor_autoscaler.__name__).setLevel(logging.ERROR)  # it warns of that


@dataclass
class GrowingPool:
    """Looks at the infer stage's replicas now and then, and adds all that there may be."""

    rows_per_batch: int
    begun: float = field(default_factory=time.monotonic)
    free_memory: Callable[[], int] = free_memory
    """Bytes."""
    ready: float | None = None
    """When the first replica had its model."""
    has_grown: bool = False

    def __post_init__(self) -> None:
        self.free_before = self.free_memory()

    def look(self, executor: Any, done: int, total: int | None, now: float) -> None:
        """Add replicas, where that pays.

        Args:
            executor: Ray's.
            done: rows that are through with the model.
            total: all rows of the job; None where nobody knows.
            now: on the monotonic clock.
        """
        for operator, state in executor._topology.items():
            if isinstance(operator, ActorPoolMapOperator):
                (pool,) = operator.get_autoscaling_actor_pools()
                if pool.num_running_actors() and self.ready is None:
                    self.ready = now
                missing = pool.max_size() - pool.current_size()
                waiting = state.total_enqueued_input_blocks()
                if missing and waiting and not self.has_grown and self.pays(done, total, now):
                    self.add(pool, missing)

    def add(self, pool: Any, missing: int) -> None:
        """Add what is missing, as far as there is memory for it, once and for all.

        Another one takes less memory than all that was started with the first.
        """
        self.has_grown = True
        free = self.free_memory()
        fits = int(free * MEMORY_TO_USE / max(1, self.free_before - free))
        if more := min(missing, fits):
            pool.scale(ActorPoolScalingRequest.upscale(delta=more, reason="it pays"))

    def pays(self, done: int, total: int | None, now: float) -> bool:
        """Whether what is left takes longer than the first replica took to be there.

        That was when everything else was started too: another one takes less time.
        What is in hand counts as done: else nothing could be said before the first batch is.
        Where more is done than there was, steps make many rows of one, and nobody knows how many.
        """
        if self.ready is None:
            return False
        if total is None or done > total:
            return True
        share = max(done, BATCHES_IN_HAND * self.rows_per_batch) / max(total, 1)
        left = (now - self.ready) * (1 - share) / share
        return left > self.ready - self.begun
