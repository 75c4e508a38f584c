"""More workers on this machine, where work waits for them and a core is idle.

Ray starts as many as there is work for, and takes idle replicas away. Both pay on a cluster; on a
machine of few cores, each start takes them from those who are at work.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ray.data import DataContext
from ray.data._internal.actor_autoscaler import default_actor_autoscaler
from ray.data._internal.actor_autoscaler.autoscaling_actor_pool import ActorPoolScalingRequest
from ray.data._internal.execution.operators.actor_pool_map_operator import ActorPoolMapOperator

from tasks.machine import MEMORY_TO_USE, busy_seconds, cores, free_memory
from tasks.ray_job.batch_sizes import BATCHES_IN_HAND

LOOK_SECONDS = 1.0
IDLE = 0.5
"""Cores that must have been idle for another worker to find room."""
START_SECONDS = 2.0
"""Of a core, that a worker takes to start: idle time that adds up to it would have paid for it."""


def leave_pool_alone(context: DataContext) -> None:
    """Keep Ray from adding replicas, and from taking any away before the input ends."""
    context.autoscaling_config.actor_pool_util_upscaling_threshold = float("inf")
    context.autoscaling_config.actor_pool_util_downscaling_threshold = -1.0
    logging.getLogger(default_actor_autoscaler.__name__).setLevel(logging.ERROR)  # it warns of that


@dataclass
class IdleCores:
    """Looks at this machine's cores now and then."""

    busy_seconds: Callable[[], float] = busy_seconds
    at: float = field(default_factory=time.monotonic)
    unused: float = 0.0
    """Core seconds since the last worker was added."""

    def __post_init__(self) -> None:
        self.busy = self.busy_seconds()

    def look(self, now: float) -> float:
        """Cores on which there is room for other workers; 0 where the last look was just now."""
        seconds = now - self.at
        if seconds < LOOK_SECONDS:
            return 0.0
        before, self.at, self.busy = self.busy, now, self.busy_seconds()
        idle = max(0.0, cores() - (self.busy - before) / seconds)
        self.unused += idle * seconds
        return max(idle, IDLE) if self.unused > START_SECONDS else idle


@dataclass
class LocalAutoscaler:
    """Stages that begin with one worker each, and get more of them."""

    rows_per_batch: int
    batches_per_write: int = 1
    begun: float = field(default_factory=time.monotonic)
    free_memory: Callable[[], int] = free_memory
    """Bytes."""
    idle: IdleCores = field(default_factory=IdleCores)
    ready: float | None = None
    """When the first replica had its model."""

    def __post_init__(self) -> None:
        self.free_before = self.free_memory()
        self.most: dict[Any, int] = defaultdict(lambda: 1)
        """Tasks of an operator that may run at once."""

    def look(self, executor: Any, done: int, total: int | None, now: float) -> None:
        """Add workers, where work waits for them and a core is idle.

        The last stage comes first: what waits for it holds back the others.

        Args:
            executor: Ray's.
            done: rows that are through with the model.
            total: all rows of the job; None where nobody knows.
            now: on the monotonic clock.
        """
        operators: list[Any] = [*executor._topology]
        if self.ready is None and any(replicas_of(each) for each in operators):
            self.ready, self.idle.unused = now, 0.0
        room = self.idle.look(now)
        for operator in reversed(operators):
            if room < IDLE:
                break
            if self.is_behind(operator, executor._topology):
                num_cpus = operator.per_task_resource_allocation().cpu or 1
                wanted = max(1, round(room / num_cpus))
                if not isinstance(operator, ActorPoolMapOperator):
                    added = self.add_tasks(operator, wanted)
                else:
                    pays = self.pays(done, total, now)
                    added = self.add_replicas(operator, wanted) if pays else 0
                if added:
                    self.idle.unused = 0.0
                    room -= added * num_cpus

    def is_behind(self, operator: Any, topology: Any) -> bool:
        """Whether a stage has more to do than its workers are about to take.

        What others would read ahead helps nobody while the next stage has something to do.
        """
        waiting = topology[operator].total_enqueued_input_blocks()
        if isinstance(operator, ActorPoolMapOperator):
            return bool(waiting)
        if not operator.output_dependencies:
            return bool(waiting > self.batches_per_write * operator.num_active_tasks())
        following = topology[operator.output_dependencies[0]]
        return bool(waiting and not following.total_enqueued_input_blocks())

    def add_tasks(self, operator: Any, wanted: int) -> int:
        """Let more tasks of a stage run at once, as far as there may be more; how many."""
        most, limit = self.most[operator], operator.get_max_concurrency_limit()
        if operator.num_active_tasks() < most:
            return 0  # it has not started all that it may
        more = wanted if limit is None else max(0, min(wanted, limit - most))
        self.most[operator] += more
        return more

    def add_replicas(self, operator: Any, wanted: int) -> int:
        """Add replicas, as far as there may be more and there is memory for them; how many.

        Another one takes less memory than all that was started with the first.
        """
        (pool,) = operator.get_autoscaling_actor_pools()
        there = pool.current_size()
        if pool.num_running_actors() < there:
            return 0  # those that load their model will need a core
        free = self.free_memory()
        fits = int(free * MEMORY_TO_USE * there / max(1, self.free_before - free))
        more = max(0, min(pool.max_size() - there, wanted, fits))
        if more:
            pool.scale(ActorPoolScalingRequest.upscale(delta=more, reason="it pays"))
        return more

    def pays(self, done: int, total: int | None, now: float) -> bool:
        """Whether what is left takes longer than the first replica took to be there.

        That was when everything else was started too: another one takes less time.
        What is in hand counts as done: else nothing could be said before the first batch is.
        Where more is done than there was, their number was reckoned, and nobody knows it.
        """
        if self.ready is None:
            return False
        if total is None or done > total:
            return True
        share = max(done, BATCHES_IN_HAND * self.rows_per_batch) / max(total, 1)
        left = (now - self.ready) * (1 - share) / share
        return left > self.ready - self.begun


def replicas_of(operator: Any) -> int:
    """Replicas of an operator that have loaded the model; 0 of one that has none."""
    is_pool = isinstance(operator, ActorPoolMapOperator)
    return int(operator.get_actor_info().running) if is_pool else 0
