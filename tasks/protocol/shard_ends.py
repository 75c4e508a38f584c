"""Ends of shards in little space: that one was read to its end, and how many rows it had."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tasks.protocol.batch import ShardEnd
from tasks.protocol.ids import Ids, as_ids, sequences


@dataclass(frozen=True, slots=True)
class EndRuns:
    """Ends as runs of (first shard, rows of each, how many shards one after another)."""

    runs: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def of(cls, ends: Iterable[ShardEnd]) -> "EndRuns":
        """Encode, keeping order and repeats."""
        runs: list[tuple[int, int, int]] = []
        for end in ends:
            first, rows, count = runs[-1] if runs else (-1, -1, 0)
            if rows == end.rows and first + count == end.shard:
                runs[-1] = (first, rows, count + 1)
            else:
                runs.append((end.shard, end.rows, 1))
        return cls(tuple(runs))

    @classmethod
    def of_json(cls, raw: Iterable[list[int]]) -> "EndRuns":
        """Read what `as_json` made."""
        return cls(tuple((first, rows, more[0] if more else 1) for first, rows, *more in raw))

    def as_json(self) -> list[list[int]]:
        """As [first shard, rows, how many]; without the last where it is 1."""
        return [[*run[:2]] if run[2] == 1 else [*run] for run in self.runs]

    def __iter__(self) -> Iterator[ShardEnd]:
        """One by one."""
        for first, rows, count in self.runs:
            for shard in range(first, first + count):
                yield ShardEnd(shard, rows)


@dataclass(frozen=True)
class Ends:
    """Shards that were read to their end, the rows of each, and which of several owners says so."""

    shards: Ids
    rows: Ids
    owners: Ids

    @classmethod
    def of(cls, named: Iterable[EndRuns]) -> "Ends":
        """What each of several owners names, in their order."""
        each = [own.runs for own in named]
        runs = np.array([run for own in each for run in own], dtype=np.int64).reshape(-1, 3)
        owners = np.repeat(np.arange(len(each)), as_ids(map(len, each)))
        first, rows, count = runs.T
        return cls(sequences(first, count), np.repeat(rows, count), np.repeat(owners, count))

    def first(self) -> "Ends":
        """What is said first of each shard, by shard."""
        shards, at = np.unique(self.shards, return_index=True)
        return Ends(shards, self.rows[at], self.owners[at])
