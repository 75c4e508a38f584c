"""Batches side by side: the same answers as in turn, from models that share weights alone."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.kinds.models.hf.text import TextInputs
from tasks.kinds.models.model import Placement
from tasks.kinds.models.torch_batches import Batches, Threads, in_turn, side_by_side
from tasks.kinds.models.torch_threads import pool_of_single_threads, torch_threads
from tasks.kinds.models.vision.presets import CropInputs
from tests.kinds.tiny_models import tokenizer
from tests.kinds.tiny_tasks import TINY_TASKS, TinyTask, assert_alike

TWO = Placement(num_threads=2)
ON_GPU = Placement(device="cuda", num_threads=4)
"""In name: what is called here reckons on the CPU."""
TOGETHER = 30.0


@pytest.fixture
def model() -> Any:
    """Adds what it was called with to its weight, and keeps it for a moment in between."""
    import torch

    class Forgetful(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))
            self.register_buffer("shift", torch.zeros(1))
            self.register_buffer("inv_freq", torch.zeros(1))
            self.twice = 2 * self.weight  # as weight normalisation leaves it
            self.kept: Any = None

        def forward(self, values: Any) -> Any:
            self.kept = values
            time.sleep(0.005)  # another thread's turn
            return self.kept + self.twice - self.weight + self.shift

    return Forgetful()


def batches(number: int) -> Batches:
    """A row each, of its own place."""
    import torch

    for at in range(number):
        time.sleep(0.001)  # so that two threads would ask at the same time
        yield np.array([at]), torch.tensor([float(at)])


def by_call(model: Any) -> Callable[[Any], Any]:
    """The model itself."""
    return lambda values: model(values)


@pytest.mark.parametrize("number", [0, 1, 2, 3, 40])
def test_batches_side_by_side_say_what_they_say_in_turn(model: Any, number: int) -> None:
    told = side_by_side(model, by_call, TWO)(batches(number))
    expected = in_turn(by_call(model), Placement())(batches(number))
    assert sorted((int(at[0]), float(made)) for at, made in told) == [
        (int(at[0]), float(made)) for at, made in expected
    ]


def test_each_thread_has_a_model_and_all_have_its_weights(model: Any) -> None:
    meeting = threading.Barrier(2, timeout=TOGETHER)
    seen: dict[int, Any] = {}

    def call_of(own: Any) -> Callable[[Any], Any]:
        def call(values: Any) -> Any:
            seen[id(own)] = own
            meeting.wait()  # breaks unless another thread comes here
            return own(values)

        return call

    side_by_side(model, call_of, TWO)(batches(4))
    one, other = seen.values()
    assert model not in (one, other)
    assert one.weight is other.weight is model.weight
    assert one.shift is other.shift is model.shift
    assert len({id(each.inv_freq) for each in (one, other, model)}) == 3  # of the last batch


def test_a_batch_alone_has_all_threads_and_others_one_each(model: Any) -> None:
    import torch

    def call_of(own: Any) -> Callable[[Any], Any]:
        return lambda values: torch.get_num_threads()

    before = torch.get_num_threads()
    run = side_by_side(model, call_of, TWO)
    assert [threads for _, threads in run(batches(1))] == [2]
    assert [threads for _, threads in run(batches(3))] == [1, 1, 1]
    assert torch.get_num_threads() == before


def test_threads_of_a_pool_start_no_others_whatever_is_set_meanwhile() -> None:
    import torch

    pool = pool_of_single_threads(2)
    with torch_threads(3):
        assert pool.submit(torch.get_num_threads).result() == 1
        assert torch.get_num_threads() == 3


def test_nothing_asks_for_gradients(model: Any) -> None:
    made = side_by_side(model, by_call, TWO)(batches(4))
    assert not any(each.requires_grad for _, each in made)


@pytest.mark.parametrize("place", [1, 2])
def test_who_fails_stops_the_others(model: Any, place: int) -> None:
    asked = []

    def counted() -> Iterator[Any]:
        for at, values in batches(1_000):
            asked.append(at)
            yield at, values

    def call_of(own: Any) -> Callable[[Any], Any]:
        def call(values: Any) -> Any:
            if values == place:
                raise ValueError("this batch breaks it")
            return own(values)

        return call

    with pytest.raises(ValueError, match="this batch breaks it"):
        side_by_side(model, call_of, TWO)(counted())
    assert len(asked) < 20


def test_batches_that_cannot_be_made_are_told(model: Any) -> None:
    def broken() -> Batches:
        yield from batches(5)
        raise ValueError("no arguments for this one")

    with pytest.raises(ValueError, match="no arguments for this one"):
        side_by_side(model, by_call, TWO)(broken())


def test_a_gpu_takes_batches_in_turn(model: Any) -> None:
    def call_of(own: Any) -> Callable[[Any], Any]:
        return lambda values: own is model and threading.current_thread().name

    run = side_by_side(model, call_of, ON_GPU)
    assert {name for _, name in run(batches(8))} == {threading.current_thread().name}


@pytest.mark.parametrize("number", [0, 1, 7])
def test_the_next_batch_for_a_gpu_is_made_meanwhile(model: Any, number: int) -> None:
    made = [threading.Event() for _ in range(number)]

    def making() -> Batches:
        for (index, values), event in zip(batches(number), made, strict=True):
            event.set()
            yield index, values

    def call(values: Any) -> float:
        at = int(values)
        assert all(each.wait(TOGETHER) for each in made[at + 1 : at + 2])
        assert not any(each.is_set() for each in made[at + 2 :])  # there is memory for one more
        return float(values)

    told = in_turn(call, ON_GPU)(making())
    assert [(int(at[0]), value) for at, value in told] == [(at, at) for at in range(number)]


def test_a_gpu_predicts_what_comes_before_a_batch_that_cannot_be_made(model: Any) -> None:
    seen: list[Any] = []

    def broken() -> Batches:
        yield from batches(3)
        raise ValueError("no arguments for this one")

    with pytest.raises(ValueError, match="no arguments for this one"):
        in_turn(seen.append, ON_GPU)(broken())
    assert [int(each) for each in seen] == [0, 1, 2]


@pytest.mark.parametrize("tiny", TINY_TASKS, ids=str)
def test_two_threads_predict_what_one_does(
    tiny: TinyTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, run = list[int](), Threads.run

    def noted(own: Threads, batches: Batches) -> Any:
        numbers.append(own.number)
        return run(own, batches)

    monkeypatch.setattr(Threads, "run", noted)
    model, rows = tiny.saved(tmp_path)
    one, two = (model.predictor(Placement(num_threads=each))(rows) for each in (1, 2))
    assert numbers == [2]
    assert_alike(two, one, 1e-6)


def test_a_gpu_need_not_wait_for_what_is_copied_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's device without data stands for the GPU."""
    import torch

    pinned, made = list[tuple[int, ...]](), list[Any]()
    whole, empty = torch.tensor, torch.empty

    def staying(shape: tuple[int, ...], pin_memory: bool = False, **more: Any) -> Any:
        if pin_memory:
            pinned.append(shape)
        return empty(shape, **more)

    def noting(*given: Any, **more: Any) -> Any:
        made.append(more.get("device"))
        return whole(*given, **more)

    monkeypatch.setattr(torch, "empty", staying)
    monkeypatch.setattr(torch, "tensor", noting)
    there = Placement("meta", dtype="float32")
    preset = SimpleNamespace(crop_size=[4], mean=[0.1, 0.2, 0.3], std=[0.4, 0.5, 0.6])
    crops = CropInputs(preset, there)
    for _ in range(3):
        assert crops.arguments(np.zeros((2, 48), np.uint8))["x"].device.type == "meta"
    assert pinned == [(2, 48)] * 3
    assert made == [torch.device("meta")] * 2, "mean and deviation, once"
    texts = TextInputs(tokenizer(with_pairs=True), there)
    assert texts.blank()["attention_mask"].device.type == "meta"
    assert pinned[3:] == [(1, 2)] * 2, "tokens and mask of a text without words"
