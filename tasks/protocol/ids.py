"""Row ids, and sequences of them in little space.

A row's id is `shard << 32 | row in shard`. Sequences keep their order and their repeats (a row
that became three has its id three times), as runs of (first id, count, step): rows of one shard
step by 1, one-row shards (images) by 2**32, repeats by 0.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
OneOrMore = TypeVar("OneOrMore", int, Ids)

ROW_BITS = 32
MAX_SHARDS = 1 << 31
MAX_ROWS = 1 << ROW_BITS
IDS_IN_CACHE = 1 << 14


def row_id(shard: int, row: int) -> int:
    """The id of a row.

    Raises:
        OverflowError: more than 2**31 shards, or more than 2**32 rows in one.
    """
    if not (0 <= shard < MAX_SHARDS and 0 <= row < MAX_ROWS):
        raise OverflowError(f"shard {shard}, row {row} do not fit a row id")
    return shard << ROW_BITS | row


def shard_of(ids: OneOrMore) -> OneOrMore:
    """The shard of an id, or of each."""
    return ids >> ROW_BITS


def row_of(ids: OneOrMore) -> OneOrMore:
    """The row in its shard of an id, or of each."""
    return ids & (MAX_ROWS - 1)


def are_in(ordered: Ids, ids: Ids) -> Mask:
    """Which ids are among ordered ones."""
    if not len(ordered):
        return np.zeros(len(ids), dtype=bool)
    return ordered[np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)] == ids


def as_ids(values: Iterable[int]) -> Ids:
    """Ids as an array."""
    return np.fromiter(values, dtype=np.int64)


def sequences(firsts: Ids, counts: Ids, steps: Ids | None = None) -> Ids:
    """Several sequences as one array, each from its first number on in steps of its own, or 1."""
    at = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(firsts, counts) + (at if steps is None else at * np.repeat(steps, counts))


@dataclass(frozen=True, slots=True)
class IdRuns:
    """A sequence of ids as runs of (first id, count, step)."""

    runs: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def of(cls, ids: Ids) -> "IdRuns":
        """Encode a sequence, keeping order and repeats."""
        if is_one_run(ids):
            return cls(((int(ids[0]), len(ids), int(ids[1] - ids[0])),))
        steps = ids[1:] - ids[:-1]
        turns = np.append(np.flatnonzero(np.diff(steps)) + 1, len(steps))
        runs: list[tuple[int, int, int]] = []
        at = 0
        while at < len(steps):
            last = int(turns[np.searchsorted(turns, at, side="right")])
            runs.append((int(ids[at]), last - at + 1, int(steps[at])))
            at = last + 1
        if at == len(steps) and len(ids):
            runs.append((int(ids[at]), 1, 1))
        return cls(tuple(runs))

    @classmethod
    def of_json(cls, text: str) -> "IdRuns":
        """Read what `as_json` wrote."""
        return cls(tuple((first, count, step) for first, count, step in json.loads(text)))

    def as_json(self) -> str:
        """As text."""
        return json.dumps(self.runs, separators=(",", ":"))

    def ids(self) -> Ids:
        """Decode."""
        if not self.runs:
            return np.empty(0, dtype=np.int64)
        return np.concatenate(
            [first + step * np.arange(count, dtype=np.int64) for first, count, step in self.runs]
        )

    def __len__(self) -> int:
        return sum(count for _, count, _ in self.runs)


def is_one_run(ids: Ids) -> bool:
    """Whether ids, two at least, all have the same step; looked at in parts that a cache holds."""
    if len(ids) < 2:
        return False
    first, second, last = map(int, ids[[0, 1, -1]])
    if first + (second - first) * (len(ids) - 1) != last:
        return False
    parts = (ids[at : at + IDS_IN_CACHE + 1] for at in range(0, len(ids) - 1, IDS_IN_CACHE))
    return all((np.diff(part) == second - first).all() for part in parts)


RowsByRun = dict[str, Ids]
"""Rows by the run whose plan their ids belong to; sorted."""


def by_run(pairs: Iterable[tuple[str, IdRuns]]) -> RowsByRun:
    """Rows of the same run together."""
    found: dict[str, list[Ids]] = {}
    for run_id, runs in pairs:
        found.setdefault(run_id, []).append(runs.ids())
    return {run_id: np.unique(np.concatenate(ids)) for run_id, ids in found.items()}
