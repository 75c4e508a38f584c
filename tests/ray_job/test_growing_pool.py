"""When a machine's own job gets more replicas than it began with."""

from types import SimpleNamespace
from typing import Any

import pytest


class Pool:
    """Of one replica, which takes ten seconds to be there, and four at most."""

    def __init__(self) -> None:
        self.running, self.size = 0, 1

    def num_running_actors(self) -> int:
        return self.running

    def current_size(self) -> int:
        return self.size

    def max_size(self) -> int:
        return 4

    def scale(self, asked: Any) -> None:
        self.size += asked.delta


def play(
    total: int | None, done: list[int], *, queued: int = 1, takes: int = 1, free: int = 100
) -> list[int]:
    """Replicas after each second of a job, given the rows done by then.

    Of the memory that is free, so much is taken when the first one is there.
    """
    from ray.data._internal.execution.operators.actor_pool_map_operator import (
        ActorPoolMapOperator,
    )

    from tasks.ray_job.growing_pool import GrowingPool

    pool, operator = Pool(), object.__new__(ActorPoolMapOperator)
    operator.get_autoscaling_actor_pools = lambda: [pool]
    state = SimpleNamespace(total_enqueued_input_blocks=lambda: queued)
    executor = SimpleNamespace(_topology={object(): None, operator: state})
    memory = iter([free, *[free - takes] * 99])
    growing, sizes = GrowingPool(100, begun=0.0, free_memory=lambda: next(memory)), []
    for second in range(11):
        pool.running = int(second == 10)
        growing.look(executor, 0, total, float(second))
    for second, rows in enumerate(done, 11):
        growing.look(executor, rows, total, float(second))
        sizes.append(pool.size)
    return sizes


@pytest.mark.parametrize(
    ("total", "done", "wanted"),
    [
        # 100 rows a second, of 2,400: another 22 s are left after two, more than a start's.
        (2_400, [100, 200], [4, 4]),
        # Of 1,000 rows, nine seconds.
        (1_000, [100, 200, 900, 1_000], [1, 1, 1, 1]),
        # Two long batches of ten: after three seconds of them 12 are left at best.
        (1_000, [0, 0, 0], [1, 1, 4]),
        # Nobody knows how much is left.
        (None, [0], [4]),
        # A step makes many rows of one; how many nobody knows.
        (1_000, [900, 1_000, 1_001], [1, 1, 4]),
        # All of it is in hand.
        (80, [0, 0, 0, 0], [1, 1, 1, 1]),
    ],
)
def test_it_grows_where_what_is_left_takes_longer_than_a_start(
    total: int | None, done: list[int], wanted: list[int]
) -> None:
    assert play(total, done) == wanted


def test_it_does_not_grow_where_nothing_waits() -> None:
    assert play(2_400, [100, 200], queued=0) == [1, 1]


def test_it_grows_no_further_than_there_is_memory() -> None:
    assert play(None, [0, 0], takes=30) == [2, 2]
    assert play(None, [0, 0], takes=20) == [4, 4]
    assert play(None, [0, 0], takes=60) == [1, 1]
