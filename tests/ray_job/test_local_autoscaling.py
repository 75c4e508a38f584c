"""When a machine's own job gets more workers than it began with."""

from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.ray_job import local_autoscaling as module
from tasks.ray_job.local_autoscaling import IdleCores, LocalAutoscaler
from tests.ray_job.test_own_machine import ELSEWHERE, job_of, spec


@pytest.fixture(autouse=True)
def of_four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cores", lambda: 4)


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


def operator_of(kind: type, num_cpus: float = 1, **more: Any) -> Any:
    made: Any = object.__new__(kind)
    made.per_task_resource_allocation = lambda: SimpleNamespace(cpu=num_cpus)
    made.__dict__.update(more)
    return made


def topology_of(queued: dict[Any, int]) -> Any:
    """Of operators, with as many blocks before each."""

    def state(blocks: int) -> Any:
        return SimpleNamespace(total_enqueued_input_blocks=lambda: blocks)

    return SimpleNamespace(_topology={op: state(blocks) for op, blocks in queued.items()})


def idle_cores(idle: list[float]) -> IdleCores:
    """Seconds in which so many of four cores are idle."""
    busy = iter([0.0, *accumulate(4 - each for each in idle)])
    return IdleCores(lambda: next(busy), at=-1.0)


def play(
    total: int | None,
    done: list[int],
    *,
    queued: int = 1,
    takes: int = 1,
    free: int = 100,
    idle: list[float] | None = None,
    num_cpus: float = 1,
) -> list[int]:
    """Replicas after each second of a job, given the rows done by then.

    Of the memory that is free, so much is taken when the first one is there. All that are added are
    there two seconds later.
    """
    from ray.data._internal.execution.operators.actor_pool_map_operator import (
        ActorPoolMapOperator,
    )

    pool = Pool()
    operator = operator_of(
        ActorPoolMapOperator,
        num_cpus,
        get_autoscaling_actor_pools=lambda: [pool],
        get_actor_info=lambda: SimpleNamespace(running=pool.running),
    )
    executor = topology_of({operator: queued})
    memory = iter([free, *[free - takes] * 99])
    cores = idle_cores([0.0 if idle else 3.0] * 11 + (idle or [3.0] * 99))
    growing = LocalAutoscaler(100, begun=0.0, free_memory=lambda: next(memory), idle=cores)
    sizes, before = [], 1
    for second in range(11):
        pool.running = int(second == 10)
        growing.look(executor, 0, total, float(second))
    for second, rows in enumerate(done, 11):
        growing.look(executor, rows, total, float(second))
        sizes.append(pool.size)
        pool.running, before = before, pool.size
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
def test_replicas_are_added_where_what_is_left_takes_longer_than_a_start(
    total: int | None, done: list[int], wanted: list[int]
) -> None:
    assert play(total, done) == wanted


def test_none_is_added_where_nothing_waits() -> None:
    assert play(2_400, [100, 200], queued=0) == [1, 1]


@pytest.mark.parametrize(
    ("idle", "num_cpus", "wanted"),
    [
        ([0.4, 0.0, 0.4], 1, [1, 1, 1]),  # each start would take a core from somebody
        ([0.0, 0.6, 0.0], 1, [1, 2, 2]),
        ([1.1, 1.1, 1.1], 1, [2, 2, 3]),  # none while those are on their way that were added
        ([3.0, 3.0, 3.0], 2, [3, 3, 4]),  # of two cores each; one finds room in half of them
    ],
)
def test_as_many_are_added_as_cores_are_idle(
    idle: list[float], num_cpus: float, wanted: list[int]
) -> None:
    assert play(None, [0, 0, 0], idle=idle, num_cpus=num_cpus) == wanted


def test_none_are_added_beyond_the_memory_there_is() -> None:
    assert play(None, [0], takes=30) == [2]
    assert play(None, [0], takes=20) == [4]
    assert play(None, [0], takes=60) == [1]


@pytest.mark.parametrize(
    ("shares", "batches", "outputs", "idle", "readers", "writers"),
    [
        (8, 0, 0, 2.0, 3, 1),  # the model waits for batches
        (8, 0, 0, 0.4, 1, 1),  # and cores are busy
        (8, 1, 0, 2.0, 1, 1),  # it has some
        (0, 0, 0, 2.0, 1, 1),  # nothing is left to read
        (8, 1, 3, 2.0, 1, 3),  # the writer has two batches at work, and more wait for it
        (8, 1, 2, 2.0, 1, 1),
        (8, 0, 3, 1.0, 1, 2),  # what is held back comes first
        (8, 0, 3, 4.0, 2, 4),  # and leaves what it has no use for
    ],
)
def test_tasks_are_added_where_batches_wait_for_them(
    shares: int, batches: int, outputs: int, idle: float, readers: int, writers: int
) -> None:
    from tasks.ray_job.backpressure import AsManyAsGrown

    stages = Stages(most_writers=4)
    growing = LocalAutoscaler(100, 2, begun=0.0, idle=idle_cores([idle]))
    executor = topology_of({stages.read: shares, stages.infer: batches, stages.write: outputs})
    growing.look(executor, 0, None, 0.0)
    assert (growing.most[stages.read], growing.most[stages.write]) == (readers, writers)
    may = object.__new__(AsManyAsGrown)
    for given, wanted in ((None, True), (growing, readers > 1)):
        AsManyAsGrown.growing = given
        assert may.can_add_input(stages.read) is wanted
    assert may.can_add_input(stages.infer)


def test_none_are_added_while_others_have_not_started() -> None:
    stages = Stages(most_writers=4)
    growing = LocalAutoscaler(100, begun=0.0, idle=idle_cores([1.0] * 3))
    executor = topology_of({stages.read: 8, stages.infer: 0, stages.write: 0})
    grown = []
    for second, at_work in enumerate((1, 1, 2)):
        stages.read.num_active_tasks = lambda at_work=at_work: at_work
        growing.look(executor, 0, None, float(second))
        grown.append(growing.most[stages.read])
    assert grown == [2, 2, 3]


def test_idle_time_pays_for_a_worker_bit_by_bit() -> None:
    stages = Stages(most_writers=4)
    growing = LocalAutoscaler(100, begun=0.0, idle=idle_cores([0.3] * 14))
    executor = topology_of({stages.read: 8, stages.infer: 0, stages.write: 0})
    stages.read.num_active_tasks = lambda: growing.most[stages.read]
    grown = []
    for second in range(14):
        growing.look(executor, 0, None, float(second))
        grown.append(growing.most[stages.read])
    assert grown == [1] * 6 + [2] * 7 + [3]


def test_time_in_which_cores_were_idle_while_the_model_was_loaded_pays_for_none() -> None:
    stages = Stages(most_writers=4)
    growing = LocalAutoscaler(100, begun=0.0, idle=idle_cores([0.4] * 10))
    executor = topology_of({stages.read: 8, stages.infer: 0, stages.write: 0})
    grown = []
    for second in range(10):
        running = int(second >= 4)
        stages.infer.get_actor_info = lambda running=running: SimpleNamespace(running=running)
        growing.look(executor, 0, None, float(second))
        grown.append(growing.most[stages.read])
    assert grown == [1] * 9 + [2]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's, of its own settings
def test_a_machine_of_its_own_grows_and_no_other_after_it(tmp_path: Path) -> None:
    """Settings outlive a job where another one follows in the same process."""
    from ray.data import DataContext

    from tasks.ray_job.backpressure import AsManyAsGrown
    from tasks.ray_job.cluster import plan_workers
    from tasks.ray_job.watch import Watch

    weights = tmp_path / "weights.onnx"
    with weights.open("wb") as file:
        file.truncate(100 << 20)
    model = {"kind": "onnx", "path": str(weights), "columns": ["x"]}
    resources = {"min_replicas": 1, "max_replicas": 3}
    own = job_of(spec(model=model, resources=resources))
    threshold = "actor_pool_util_upscaling_threshold"
    with DataContext.current(DataContext()):
        scaling = DataContext.get_current().autoscaling_config
        assert plan_workers(job_of(spec(cluster=ELSEWHERE)), 0.0, 1_000) is None
        assert getattr(scaling, threshold) != float("inf")
        assert plan_workers(own, 0.0, 1_000) == 3
        assert getattr(scaling, threshold) == float("inf")
        assert Watch.growing is not None
        assert AsManyAsGrown.growing is Watch.growing
        assert plan_workers(own, 1.0, 1_000) is None  # beside a GPU
        assert AsManyAsGrown.growing is Watch.growing is None


class Stages:
    """One reader, no replica yet, and one writer of so many that there may be."""

    def __init__(self, most_writers: int) -> None:
        from ray.data._internal.execution.operators.actor_pool_map_operator import (
            ActorPoolMapOperator,
        )
        from ray.data._internal.execution.operators.task_pool_map_operator import (
            TaskPoolMapOperator,
        )

        one: dict[str, Any] = {"num_active_tasks": lambda: 1}
        self.write = operator_of(
            TaskPoolMapOperator, **one, _output_dependencies=[], _max_concurrency=most_writers
        )
        self.infer = operator_of(
            ActorPoolMapOperator, get_actor_info=lambda: SimpleNamespace(running=0)
        )
        following: dict[str, Any] = {"_output_dependencies": [self.infer], "_max_concurrency": None}
        self.read = operator_of(TaskPoolMapOperator, **one, **following)


def test_cores_are_looked_at_now_and_then() -> None:
    idle = idle_cores([1.5, 2.5])
    assert idle.look(-0.5) == 0.0
    assert idle.look(0.0) == 1.5
    assert [idle.look(0.9), idle.look(1.0)] == [0.0, 2.5]
