"""Inputs that get rewritten, and what a model makes of their rows."""

import random
from dataclasses import dataclass

from tasks.errors import InputChanged
from tasks.protocol.plan_file import Shard

OK, CHILDREN, FILTERED, REJECTED, FLAKY = "ocfrk"


@dataclass(frozen=True)
class Content:
    """What one version of an input holds."""

    rows: str
    """One letter a row: what becomes of it."""
    knows_length: bool
    """Whether a plan can tell the number of rows."""
    ends: bool
    """Whether its reader reports the end; always where the length is unknown."""
    split: int
    """Where its second shard starts; 0: it is one shard."""

    def shards(self, path: str, identity: str) -> list[Shard]:
        if not self.split:
            rows = len(self.rows) if self.knows_length else None
            return [Shard(0, path, identity, 1, rows=rows)]
        return [
            Shard(0, path, identity, 1, 0, 1, 0, self.split),
            Shard(0, path, identity, 1, 1, 2, self.split, len(self.rows) - self.split),
        ]

    def rows_of(self, shard: Shard) -> range:
        """Rows of the input that are the shard's."""
        if not self.split:
            return range(len(self.rows))
        return range(self.split) if shard.start == 0 else range(self.split, len(self.rows))


class Inputs:
    """The folder that runs read."""

    def __init__(self, seed: int, rows: tuple[int, ...] = (0,)) -> None:
        self.seed = seed
        self.rows = rows
        self.versions: dict[str, int] = {}
        self.known: dict[tuple[str, str], Content] = {}
        self.added = 0

    def add(self, *, in_front: bool = False) -> None:
        self.versions[f"in/{9 - self.added if in_front else 10 + self.added}"] = 1
        self.added += 1

    def rewrite(self, path: str) -> None:
        self.versions[path] += 1

    def identity(self, path: str) -> str | None:
        version = self.versions.get(path)
        return None if version is None else f"v{version}"

    def content(self, path: str, identity: str) -> Content:
        key = path, identity
        if key not in self.known:
            self.known[key] = self.make(random.Random(f"{self.seed} {path} {identity}"))
        return self.known[key]

    def make(self, dice: random.Random) -> Content:
        size = dice.choice(self.rows)
        rows = "".join(dice.choice("oooooocfrk") for _ in range(size))
        knows_length = dice.random() < 0.5
        split = dice.randint(1, size - 1) if size > 2 and dice.random() < 0.3 else 0
        return Content(rows, knows_length, not knows_length or dice.random() < 0.5, split)

    def shards(self) -> list[Shard]:
        """All that lies there now."""
        found: list[Shard] = []
        for path, version in sorted(self.versions.items()):
            identity = f"v{version}"
            found += self.content(path, identity).shards(path, identity)
        return found

    def check(self, shard: Shard) -> Content:
        """What a reader does before and after each block.

        Raises:
            InputChanged: the input is not what the plan saw.
        """
        if self.identity(shard.path) != shard.identity:
            raise InputChanged(shard.path)
        return self.content(shard.path, shard.identity)
