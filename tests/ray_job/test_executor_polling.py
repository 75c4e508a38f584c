"""How often Ray's executor looks round."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.ray_job.executor_polling import LONGEST_SECONDS, SHORTEST_SECONDS, PollInterval
from tests.ray_driver import answer_of

LOOKS_MEANWHILE = 10
"""How often the executor looks round while a task takes its time; at the fifth it waits as long as
it ever does."""
LOOKS = f"""
import itertools, sys, time
from pathlib import Path
import ray
from ray.data import DataContext
from ray.data._internal.execution.execution_callback import ExecutionCallback
from tasks.ray_job.executor_polling import PollInterval

class Looks(ExecutionCallback):
    folder, at, pace, is_predicting = None, [], None, False
    def on_execution_step(self, executor):
        if (self.folder / "begun").exists():
            self.at.append(time.monotonic())
        if len(self.at) == {LOOKS_MEANWHILE}:
            (self.folder / "enough").touch()
        self.pace.follow(executor, is_predicting=self.is_predicting)

def takes_its_time(rows, folder):
    (folder / "begun").touch()
    while not (folder / "enough").exists():
        time.sleep(0.01)
    return rows

ray.init(address=sys.argv[1], logging_level="ERROR")
DataContext.get_current().custom_execution_callback_classes = [Looks]
shortest = []
for is_predicting in (False, True):
    folder = Path(sys.argv[2], str(is_predicting))
    folder.mkdir()
    Looks.folder, Looks.at = folder, []
    Looks.pace, Looks.is_predicting = PollInterval(), is_predicting
    rows = ray.data.range(1)
    rows.map_batches(takes_its_time, fn_args=[folder], batch_size=None).take_all()
    looks = Looks.at[{LOOKS_MEANWHILE // 2}:{LOOKS_MEANWHILE}]
    shortest.append(min(later - at for at, later in itertools.pairwise(looks)))
answer(shortest)
"""


def executor_of(*events: tuple[int, int, int]) -> Any:
    """With operators that have begun and ended so many tasks, of which so much came."""
    metrics = (
        SimpleNamespace(
            num_tasks_submitted=begun, num_tasks_finished=ended, num_task_outputs_generated=made
        )
        for begun, ended, made in events
    )
    return SimpleNamespace(_topology=[SimpleNamespace(metrics=each) for each in metrics])


@pytest.fixture
def rays_own(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What Ray takes as the time between two looks; as it was after the test."""
    from ray.data._internal.execution import streaming_executor_state as module

    name = "WAIT_FOR_TASK_COMPLETION_TIMEOUT_S"
    assert getattr(module, name) == SHORTEST_SECONDS
    monkeypatch.setattr(module, name, SHORTEST_SECONDS)
    return lambda: getattr(module, name)


def test_the_longer_nothing_ends_the_longer_it_waits(rays_own: Any) -> None:
    pace, waits = PollInterval(), []
    for _ in range(6):
        pace.follow(executor_of((4, 2, 2), (1, 0, 0)), is_predicting=True)
        waits.append(rays_own())
    assert waits[0] == SHORTEST_SECONDS
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_SECONDS


@pytest.mark.parametrize("event", [(5, 2, 2), (4, 3, 2), (4, 2, 3)])
def test_it_is_quick_again_when_something_has_happened(
    event: tuple[int, int, int], rays_own: Any
) -> None:
    pace = PollInterval()
    for _ in range(6):
        pace.follow(executor_of((4, 2, 2), (1, 0, 0)), is_predicting=True)
    pace.follow(executor_of(event, (1, 0, 0)), is_predicting=True)
    assert rays_own() == SHORTEST_SECONDS


def test_it_is_quick_while_the_model_is_loaded(rays_own: Any) -> None:
    pace = PollInterval()
    for _ in range(6):
        pace.follow(executor_of((1, 0, 0)), is_predicting=False)
    assert rays_own() == SHORTEST_SECONDS


@pytest.mark.parametrize(("predicted", "is_longer"), [(0, False), (1, True)])
def test_a_jobs_executor_is_told(
    predicted: int, is_longer: bool, rays_own: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.ray_job.watch import Watch

    progress = SimpleNamespace(
        occupancy=SimpleNamespace(see=lambda *_: None), step=lambda _: None, predicted=predicted
    )
    for name, value in (
        ("progress", progress),
        ("followed", SimpleNamespace(check=lambda: None)),
        ("growing", None),
        ("pace", PollInterval()),
    ):
        monkeypatch.setattr(Watch, name, value)
    Watch().on_execution_step(SimpleNamespace(_topology={}))
    assert (rays_own() > SHORTEST_SECONDS) is is_longer


@pytest.mark.ray
def test_rays_executor_keeps_to_it(ray_address: str, tmp_path: Path) -> None:
    usual, later = answer_of(LOOKS, ray_address, str(tmp_path))
    assert usual < LONGEST_SECONDS / 2
    assert later >= LONGEST_SECONDS
