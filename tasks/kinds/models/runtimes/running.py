"""Calls a compiled model in place of the model, once it says the same, and not more slowly."""

import math
import time
import warnings
from collections.abc import Callable
from typing import Any

from tasks.kinds.models.machine_errors import chain, is_out_of_memory
from tasks.kinds.models.model import Placement
from tasks.kinds.models.runtimes.choice import check_placement, shown_precision
from tasks.kinds.models.runtimes.comparing import (
    TOLERANCE,
    TOLERANCES,
    can_be_compared,
    largest_difference,
)
from tasks.kinds.models.runtimes.compilers import (
    Batch,
    Call,
    Run,
    compiled_run,
    filled_up,
    num_rows,
    version_of,
)
from tasks.kinds.models.runtimes.odd_inputs import (
    GROWS_ON,
    LEFT_OUT,
    MOST_COMPARISONS,
    RECKON_OTHERWISE,
    are_finite,
    largest_whole,
)
from tasks.kinds.models.runtimes.runtime_used import Runtime, RuntimeUsed
from tasks.kinds.models.tensors.torch_running import precision_of

MOST_SHAPES = 4
"""Compiled models that a replica keeps; batches of further shapes run in eager."""
CALLS_ON_GPU = 3
"""Before a CUDA graph is there: one compiles, one is recorded."""
TIMED_CALLS, MOST_TIMED_CALLS = 2, 6
"""Of each, by turns: the quickest one counts, for others may have been disturbed. The more are made
of a compiled model that seems slow: to give it up is for all batches to come."""
MUCH_SLOWER, SLOWER_BY_SECONDS = 1.5, 0.005
"""Than eager, for a whole batch: less may be others' work on the machine."""


def run_on(
    runtime: Runtime, module: Any, call: Call, placement: Placement, rows: Callable[[Batch], int]
) -> Call:
    """A model on the runtime that is asked for.

    Args:
        runtime: eager changes nothing.
        module: the torch module that holds the weights.
        call: calls it with a batch; gives a tensor, or several in a dict or tuple, rows first.
        placement: where it runs.
        rows: how many a full batch has; smaller ones are filled up.

    Raises:
        InvalidSpec: the runtime is not for that place.
    """
    check_placement(runtime, placement)
    precision = shown_precision(precision_of(module))
    used = RuntimeUsed(runtime, runtime, precision, placement.device)
    if runtime == "eager":
        placement.runtimes.tell(used)
        return call
    return Compiled(runtime, module, call, placement, rows, precision)


class Compiled:
    """A model that is compiled anew for each shape of batches, of which there should be one."""

    def __init__(
        self,
        runtime: Runtime,
        module: Any,
        call: Call,
        placement: Placement,
        rows: Callable[[Batch], int],
        precision: str,
    ) -> None:
        self.runtime, self.module, self.call = runtime, module, call
        self.placement, self.rows, self.precision = placement, rows, precision
        self.on_gpu = placement.device != "cpu"
        self.tolerance = TOLERANCES.get(precision, TOLERANCE)
        self.ready: dict[Any, Call] = {}
        self.has_met_odd_numbers = False
        self.reckons_otherwise = runtime in RECKON_OTHERWISE
        self.compared: dict[Any, int] = {}
        """The largest whole number that was compared, by shape."""
        self.comparisons = 0

    def __call__(self, batch: Batch) -> Any:
        """The model's outputs for a batch."""
        if self.reckons_otherwise and not are_finite(batch):
            self.tell_of_odd_numbers()
            return self.call(batch)
        size = max(self.rows(batch), num_rows(batch))
        shape = tuple((name, size, *each.shape[1:], each.dtype) for name, each in batch.items())
        if shape not in self.ready:
            return self.first(shape, size, batch)
        if self.reckons_otherwise and largest_whole(batch) > self.compared[shape]:
            return self.again(shape, batch)
        return self.ready[shape](batch)

    def first(self, shape: Any, size: int, batch: Batch) -> Any:
        """What the model says of the first batch of a shape; compiles it for those to come.

        A batch that gives nothing to compare by leaves that to the next one.
        """
        from torch.utils._pytree import tree_leaves

        expected = self.call(batch)  # what is wrong with the rows shows here, as in eager
        if not can_be_compared(tree_leaves(expected)):
            return expected
        started = time.monotonic()
        self.ready[shape], self.compared[shape] = self.call, largest_whole(batch)
        try:
            self.ready[shape] = self.compiled(size, batch, expected)
        except Exception as error:  # of any kind: each compiler raises its own
            if any(map(is_out_of_memory, chain(error))):
                del self.ready[shape]
                raise  # smaller batches may compile
            self.tell(problem=said(error))
        finally:
            self.placement.runtimes.warm_up_seconds += time.monotonic() - started
        return expected

    def again(self, shape: Any, batch: Batch) -> Any:
        """What the model says of larger whole numbers than any before; compares once more."""
        from torch.utils._pytree import tree_leaves

        expected, call = self.call(batch), self.ready[shape]
        self.compared[shape] = largest_whole(batch)
        if call is not self.call:
            self.comparisons += 1
            difference = largest_difference(tree_leaves(expected), tree_leaves(call(batch)))
            is_too_far = not difference <= self.tolerance
            if is_too_far or self.comparisons >= MOST_COMPARISONS:
                self.ready[shape] = self.call
                self.tell(
                    problem=told(difference) if is_too_far else GROWS_ON, difference=difference
                )
        return expected

    def compiled(self, size: int, batch: Batch, expected: Any) -> Call:
        """The compiled model; the model itself where that says something else.

        Raises:
            Exception: it cannot be compiled.
        """
        self.refuse_hopeless()
        from torch.utils._pytree import tree_flatten, tree_unflatten

        leaves, structure = tree_flatten(expected)
        with warnings.catch_warnings():
            # Of torch's and the compilers' own code, which no user can change.
            warnings.simplefilter("ignore")
            run = compiled_run(self.runtime, self.module, self.call, self.placement, size, batch)
            for _ in range(CALLS_ON_GPU if self.on_gpu else 1):
                found = cut(run(filled_up(batch, size)), num_rows(batch))
        difference = largest_difference(leaves, found)
        if not difference <= self.tolerance:
            problem = told(difference)
            self.tell(problem=problem, difference=difference)
            return self.call
        times = self.times_eager(run, filled_up(batch, size), [*batch])
        if times > 1.0:
            self.tell(problem=f"takes {times:.1f} times as long as eager", difference=difference)
            return self.call
        self.tell(difference=difference)

        def call(batch: Batch) -> Any:
            return tree_unflatten(cut(run(filled_up(batch, size)), num_rows(batch)), structure)

        return call

    def times_eager(self, run: Run, arguments: list[Any], names: list[str]) -> float:
        """How many times as long as eager it takes.

        1 where it is not much longer, or memory for both at once runs out: a CUDA graph keeps its
        own.
        """
        whole = dict(zip(names, arguments, strict=True))
        eager = compiled = math.inf
        try:
            for calls in range(1, MOST_TIMED_CALLS + 1):
                eager = min(eager, seconds_of(lambda: self.call(whole)))
                compiled = min(compiled, seconds_of(lambda: run(arguments)))
                seems_slow = compiled >= max(eager * MUCH_SLOWER, eager + SLOWER_BY_SECONDS)
                if calls >= TIMED_CALLS and not seems_slow:
                    return 1.0
        except Exception as error:
            if any(map(is_out_of_memory, chain(error))):
                return 1.0
            raise
        return compiled / eager

    def refuse_hopeless(self) -> None:
        """See that compiling is worth its time.

        Raises:
            ValueError: it is not.
        """
        if self.precision != "float32" and not self.on_gpu:
            problem = "on CPUs runtimes have only float32"
            raise ValueError(f"the weights are {self.precision}, and {problem}")
        if len(self.ready) > MOST_SHAPES:
            raise ValueError(f"batches have more than {MOST_SHAPES} shapes")

    def tell_of_odd_numbers(self) -> None:
        """Say once that some batches are not for the compiled model."""
        if not self.has_met_odd_numbers:
            self.has_met_odd_numbers = True
            self.tell(problem=LEFT_OUT)

    def tell(self, problem: str | None = None, difference: float | None = None) -> None:
        """Say what is calculated with from here on."""
        is_told = difference is not None and math.isfinite(difference)  # JSON has no infinity
        rounded = float(f"{difference:.0e}") if is_told else None
        self.placement.runtimes.tell(
            RuntimeUsed(
                asked=self.runtime,
                used="eager" if problem else self.runtime,
                precision=self.precision,
                device=self.placement.device,
                version=version_of(self.runtime),
                difference=rounded,
                tolerance=self.tolerance,
                problem=problem,
            )
        )


def seconds_of(call: Callable[[], Any]) -> float:
    """Wall time, with all work on a GPU done."""
    import torch

    begun = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - begun


def cut(outputs: Any, rows: int) -> list[Any]:
    """Outputs without those of rows that only filled up."""
    return [each[:rows] for each in outputs]


def told(difference: float) -> str:
    """How far from eager a compiled model is."""
    if math.isinf(difference):
        return "differs from eager in whole numbers, in shape, or in NaN or infinity"
    return f"differs from eager by {difference:.1e} of an output's largest value"


def said(error: Exception) -> str:
    """The first line of what a compiler says, which may be pages."""
    lines = str(error).strip().splitlines() or [""]
    return f"cannot be compiled: {type(error).__name__}: {lines[0][:300]}"
