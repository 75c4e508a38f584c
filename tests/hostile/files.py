"""What a hostile file is, and the ways in which any file is damaged."""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["good", "bad", "either"]


@dataclass(frozen=True)
class Hostile:
    """A file that somebody may supply."""

    kind: str
    """The source that reads it."""
    name: str
    content: bytes
    good: int | None = None
    """Rows that must come through; None: any number."""
    bad: bool | None = None
    """Whether rows must be set aside; None: they may."""
    alone: bool = False
    """Whether it only tells something where it decides on the columns, as the first file."""


Make = Callable[[random.Random], Iterator[Hostile]]


def cuts(content: bytes, at: Iterable[int]) -> Iterator[tuple[str, bytes]]:
    """A file cut off at places, and one byte behind each."""
    for place in sorted({each + more for each in at for more in (0, 1)}):
        if 0 < place < len(content):
            yield f"cut at {place}", content[:place]


def flips(content: bytes, count: int, seed: random.Random) -> Iterator[tuple[str, bytes]]:
    """A file with some bytes changed, so many times."""
    for number in range(count):
        yield f"flipped {number}", flipped(content, seed)


def flipped(content: bytes, seed: random.Random, most: int = 4) -> bytes:
    """A file with one to so many bytes changed."""
    damaged = bytearray(content)
    for _ in range(seed.randint(1, most)):
        damaged[seed.randrange(len(damaged))] = seed.randrange(256)
    return bytes(damaged)


def wrong(content: bytes) -> dict[str, bytes]:
    """What lies under a name that promises something else."""
    return {
        "empty": b"",
        "one byte": b"\x00",
        "zeros": bytes(4096),
        "ones": b"\xff" * 4096,
        "a page": b"<!DOCTYPE html><html><body>404 Not Found</body></html>",
        "wrong magic": b"MZ\x90\x00" + content[4:],
        "backwards": content[::-1],
    }
