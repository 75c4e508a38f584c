"""Threads of torch, and rows shared out among threads of ours."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

import pyarrow as pa

from tasks.kinds.models.model import Function

LARGE_ENOUGH = 40 << 20
"""Bytes of weights; smaller models have too little to share out at a time."""
PARTS_PER_THREAD = 4
"""Rows differ in size; with more parts a call costs more than the end is evened out."""


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Let torch use this many threads; it is a setting of the whole process, so put it back."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def pool_of_single_threads(number: int) -> ThreadPoolExecutor:
    """Threads in which torch does not start others.

    Each takes torch's setting over when it first computes, whoever has set it meanwhile.
    """
    import torch

    return ThreadPoolExecutor(number, initializer=torch.set_num_threads, initargs=(1,))


def is_worth_threads(weights_bytes: int | None) -> bool:
    """Whether a model is as quick on two threads as twice on one; most are, where it is unknown."""
    return weights_bytes is None or weights_bytes >= LARGE_ENOUGH


def shared_out(function: Function, num_threads: int) -> Function:
    """The same function, for what torch does row by row, which one thread does best.

    Args:
        function: over rows, each by itself; several threads call it at once.
        num_threads: how many.
    """
    threads = pool_of_single_threads(num_threads)

    def call(rows: pa.Table) -> pa.Table:
        size = -(-len(rows) // (PARTS_PER_THREAD * num_threads))
        with torch_threads(1):
            if num_threads == 1 or not size:
                return function(rows)
            parts = [rows.slice(first, size) for first in range(0, len(rows), size)]
            calls = [threads.submit(function, part) for part in parts]
            wait(calls)  # none is to go on where another one fails
        return pa.concat_tables([each.result() for each in calls])

    return call
