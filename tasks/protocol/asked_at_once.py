"""Asks for many things at once: an answer takes its time, most of which it is on its way."""

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

F = TypeVar("F")
T = TypeVar("T")
ASKED_AT_ONCE = 32


def asked_at_once(ask: Callable[[F], T], of: Collection[F]) -> Iterator[T]:
    """The answers, in order; after the first that is an error nothing more is asked.

    Who asks for one thing alone does so in this thread: some clients serve no other.
    """
    if len(of) < 2:
        yield from map(ask, of)
        return
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        yield from pool.map(ask, of)
