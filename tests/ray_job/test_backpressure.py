"""How far the model may run ahead of the records."""

from types import SimpleNamespace
from typing import Any, cast

import pytest


@pytest.mark.parametrize(
    ("batch_seconds", "per_write", "replicas", "most"),
    [
        (None, 1, 1, 3),  # none has come back
        (60.0, 1, 1, 3),
        (60.0, 1, 2, 6),
        (60.0, 4, 1, 12),  # a file takes four
        (1.2, 1, 1, 4),
        (0.125, 1, 1, 40),
        (0.125, 4, 2, 80),
    ],
)
def test_the_model_gets_batches_while_few_are_predicted_and_not_recorded(
    batch_seconds: float | None, per_write: int, replicas: int, most: int
) -> None:
    from ray.data._internal.execution.operators.actor_pool_map_operator import (
        ActorPoolMapOperator,
    )

    from tasks.ray_job.backpressure import BoundUnrecorded

    def may_go_on(at_work: int, waiting: int, writes: int) -> bool:
        write = SimpleNamespace(num_active_tasks=lambda: writes)
        infer: Any = object.__new__(ActorPoolMapOperator)
        infer._output_dependencies = [write]
        infer.num_active_tasks = lambda: at_work
        infer.get_actor_info = lambda: SimpleNamespace(running=replicas)
        done = 7 if batch_seconds else 0
        infer._metrics = SimpleNamespace(
            block_generation_time=done * (batch_seconds or 0.0), num_task_outputs_generated=done
        )
        context: Any = SimpleNamespace(get_config=lambda name, default: per_write)
        topology: Any = Topology({id(write): waiting})
        return bool(BoundUnrecorded(context, topology, cast("Any", None)).can_add_input(infer))

    assert may_go_on(most - 1, 0, 0)
    assert not may_go_on(most, 0, 0)
    assert may_go_on(1, most - 2, 0)
    assert not may_go_on(1, most - 1, 0)
    in_writes, rest = divmod(most, per_write)
    assert not may_go_on(rest, 0, in_writes)
    assert may_go_on(0, 0, in_writes - 1)


def test_what_the_first_batch_has_loaded_and_compiled_does_not_count() -> None:
    from tasks.ray_job.backpressure import UsualSeconds

    usual = UsualSeconds()
    assert usual.seconds == 0.0  # nobody knows
    usual.follow(1, 40.0)
    assert usual.seconds == 40.0
    for outputs in (2, 2, 3):  # it is asked more often than batches come
        usual.follow(outputs, 40.0 + 0.125 * (outputs - 1))
    assert usual.seconds == 0.125
    usual.follow(5, 44.25)  # two at once, since the last look, of slower rows
    assert usual.seconds == 1.0625
    for outputs in range(6, 9):
        usual.follow(outputs, 44.25 + 2.0 * (outputs - 5))
    assert usual.seconds == 2.0  # what is long past does not count either


class Topology:
    """States of operators, which have as many batches before them."""

    def __init__(self, waiting: dict[int, int]) -> None:
        self.waiting = waiting

    def __getitem__(self, operator: Any) -> Any:
        return SimpleNamespace(total_enqueued_input_blocks=lambda: self.waiting[id(operator)])
