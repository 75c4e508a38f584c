"""Work for the CPU that goes on beside a GPU's."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from tasks.kinds.models.model import Placement

Given = TypeVar("Given")
Made = TypeVar("Made")
AHEAD = 4
"""For each thread, so many things may wait: they are larger than what is made of them."""


class BesideGpu(Generic[Given, Made]):
    """Has things made by threads of its own, while the caller goes on; of a CPU's, by the caller.

    There each thread that calls a model has a core, and does what is left to do itself.
    """

    def __init__(self, make: Callable[[Given], Made], placement: Placement) -> None:
        on_gpu = placement.device != "cpu"
        self.make, self.most = make, AHEAD * placement.num_threads
        self.threads = ThreadPoolExecutor(placement.num_threads) if on_gpu else None
        self.coming: deque[Future[Made]] = deque()

    def __call__(self, given: Given) -> Callable[[], Made]:
        """What gives the thing, once it is made; waits where too many are still to be made."""
        if self.threads is None:
            made = self.make(given)
            return lambda: made
        while self.coming and (self.coming[0].done() or len(self.coming) >= self.most):
            self.coming.popleft().exception()
        future = self.threads.submit(self.make, given)
        self.coming.append(future)
        return future.result
