"""Calls a torch model with one batch after another, or with several side by side."""

from collections.abc import Callable, Iterator
from concurrent.futures import wait
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice
from threading import Lock
from typing import Any

import numpy as np

from tasks.kinds.models.arrays import Index
from tasks.kinds.models.model import Placement
from tasks.kinds.models.torch_threads import pool_of_single_threads, torch_threads

Call = Callable[[Any], Any]
"""A model as a function of a batch's arguments."""
CallOf = Callable[[Any], Call]
"""Makes one of a model."""
Batches = Iterator[tuple[Index, Any]]
"""Positions of rows, and the model's arguments."""
Run = Callable[[Batches], list[tuple[Index, Any]]]
"""Positions of rows, and what the model makes of them; batches are in any order."""


def in_turn(call: Call, placement: Placement) -> Run:
    """Run batches one after another: all threads are for each."""
    import torch

    def run(batches: Batches) -> list[tuple[Index, Any]]:
        if placement.device != "cpu":
            batches = one_ahead(batches)
        with torch.inference_mode(), torch_threads(placement.num_threads):
            return [(index, call(arguments)) for index, arguments in batches]

    return run


def one_ahead(batches: Batches) -> Batches:
    """The same batches, of which a thread makes the next while a GPU works on the last.

    They are made on the CPU, and copied on a stream of their own: a GPU does both at a time.
    """
    import torch

    copying = stream_for_copies()
    if copying:
        copying.wait_stream(torch.cuda.current_stream())  # what batches are made with is there

    def make() -> tuple[Index, Any] | None:
        with torch.cuda.stream(copying):
            return next(batches, None)

    with pool_of_single_threads(1) as thread:
        coming = thread.submit(make)
        while batch := coming.result():
            if copying:
                hand_over(batch[1], copying)
            coming = thread.submit(make)
            yield batch


@cache
def stream_for_copies() -> Any:
    """One for all calls, for memory that one stream has had is no other's; None without a GPU."""
    import torch

    return torch.cuda.Stream() if torch.cuda.is_available() else None


def hand_over(arguments: Any, copying: Any) -> None:
    """Have what the GPU does from here on wait for tensors that another stream copies to it."""
    import torch
    from torch.utils._pytree import tree_leaves

    working = torch.cuda.current_stream()
    working.wait_stream(copying)
    for each in tree_leaves(arguments):
        if isinstance(each, torch.Tensor) and each.is_cuda:
            each.record_stream(working)  # else the next batch could be written over it too early


def on_device(array: np.ndarray, device: str) -> Any:
    """An array as a tensor where the model is.

    A GPU copies it while it works on another batch: only of memory that stays where it is, it can.
    """
    import torch

    if device == "cpu":
        return torch.from_numpy(np.require(array, requirements="W"))
    dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
    staying = torch.empty(array.shape, dtype=dtype, pin_memory=True)
    staying.numpy()[...] = array
    return staying.to(device, non_blocking=True)


def side_by_side(model: Any, call_of: CallOf, placement: Placement) -> Run:
    """Run batches on as many threads as a CPU's replica has, each with a batch of its own.

    Threads that share a batch wait for each other after every operator, and all of them while one
    has lost its core to another process.

    Args:
        model: changed by nobody from here on.
        call_of: called with it and with others like it.
        placement: where it runs; a GPU takes batches in turn.
    """
    alone = in_turn(call_of(model), placement)
    if placement.device != "cpu" or placement.num_threads == 1:
        return alone
    threads = Threads(model, call_of, placement.num_threads)

    def run(batches: Batches) -> list[tuple[Index, Any]]:
        first = [*islice(batches, placement.num_threads)]
        batches = chain(first, batches)
        return alone(batches) if len(first) < placement.num_threads else threads.run(batches)

    return run


class Threads:
    """Threads that have a model each, and share its weights.

    A model's modules may keep what they have reckoned of a batch for the next one, so no two
    threads may call the same ones.
    """

    def __init__(self, model: Any, call_of: CallOf, number: int) -> None:
        self.model, self.call_of, self.number = model, call_of, number
        self.calls: list[Call] = []
        """Of each thread; made when they are first wanted."""
        self.pool = pool_of_single_threads(number - 1)

    def run(self, batches: Batches) -> list[tuple[Index, Any]]:
        """What the models make of batches.

        Raises:
            Exception: one of them failed; no thread has begun another batch since.
        """
        if not self.calls:
            self.calls = [self.call_of(with_same_weights(self.model)) for _ in range(self.number)]
        work = Work(batches)
        with torch_threads(1):
            others = [self.pool.submit(work.do, call) for call in self.calls[1:]]
            try:
                work.do(self.calls[0])  # so that a profile of this thread shows what is done
            finally:
                wait(others)
        for each in others:
            each.result()
        return work.made


@dataclass
class Work:
    """Batches, of which each thread takes the next one when it is done with its last."""

    batches: Batches
    made: list[tuple[Index, Any]] = field(default_factory=list)
    is_over: bool = False
    taking: Lock = field(default_factory=Lock)

    def do(self, call: Call) -> None:
        """Call a model with batches until there are no more, or a thread has failed."""
        import torch

        try:
            with torch.inference_mode():
                while batch := self.take():
                    index, arguments = batch
                    self.made.append((index, call(arguments)))
        except BaseException:
            self.is_over = True
            raise

    def take(self) -> tuple[Index, Any] | None:
        """A batch that no other thread has; None where there is no more to do."""
        with self.taking:  # a generator cannot be asked by two at once
            return None if self.is_over else next(self.batches, None)


def with_same_weights(model: Any) -> Any:
    """The modules anew, around the same parameters and buffers.

    But for the frequencies by which tokens are turned: LongRoPE writes those of a batch over the
    last one's.
    """
    buffers = [each for name, each in model.named_buffers() if not name.endswith("inv_freq")]
    weights = (*model.parameters(), *buffers, *reckoned_of_weights(model))
    return deepcopy(model, {id(each): each for each in weights})


def reckoned_of_weights(model: Any) -> list[Any]:
    """Tensors that modules hold beside their weights, and torch does not copy."""
    import torch

    held = [value for module in model.modules() for value in vars(module).values()]
    return [each for each in held if isinstance(each, torch.Tensor) and not each.is_leaf]
