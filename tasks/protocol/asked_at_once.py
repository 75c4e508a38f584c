"""Asks for many things at once: an answer takes its time, most of which it is on its way."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

F = TypeVar("F")
T = TypeVar("T")
ASKED_AT_ONCE = 32


def asked_at_once(ask: Callable[[F], T], of: Collection[F]) -> Iterator[T]:
    """Small answers, in order; after the first that is an error nothing more is asked.

    Who asks for one thing alone does so in this thread: some clients serve no other.
    """
    if len(of) < 2:
        yield from map(ask, of)
        return
    pool, is_done = ThreadPoolExecutor(ASKED_AT_ONCE), False
    try:
        yield from pool.map(ask, of)
        is_done = True
    finally:  # who presses Ctrl-C does not wait for two listings of millions
        pool.shutdown(wait=is_done, cancel_futures=True)


def fetched(
    read: Callable[[F], T],
    files: Iterable[F],
    at_once: int = 8,
    size_of: Callable[[F], int] = lambda file: 0,
    most: int = 1,
) -> Iterator[T]:
    """What files hold, in their order; the next ones are fetched meanwhile.

    A run of thousands of batches has as many files, and stores answer late.

    Args:
        read: gives what one holds.
        files: all of them.
        at_once: how many are in memory at a time.
        size_of: bytes of one, where they may be large.
        most: bytes that are in memory at a time, unless one alone has more.
    """
    waiting: deque[tuple[Future[T], int]] = deque()
    held = 0
    with ThreadPoolExecutor(at_once) as pool:
        for file in files:
            size = size_of(file)
            while waiting and (len(waiting) == at_once or held + size > most):
                future, its_size = waiting.popleft()
                yield future.result()
                held -= its_size
            waiting.append((pool.submit(read, file), size))
            held += size
        while waiting:
            yield waiting.popleft()[0].result()
