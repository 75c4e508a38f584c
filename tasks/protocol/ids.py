"""Row ids, and sequences of them in little space.

A row's id is `shard << 32 | row in shard`. Sequences keep their order and their repeats (a row
that became three has its id three times), as runs of (first id, count, step): rows of one shard
step by 1, one-row shards (images) by 2**32, repeats by 0. Where a filter has left every other row
these would be nearly as many as there are rows; then the steps from id to id are compressed.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
OneOrMore = TypeVar("OneOrMore", int, Ids)

ROW_BITS = 32
MAX_SHARDS = 1 << 31
MAX_ROWS = 1 << ROW_BITS
IDS_IN_CACHE = 1 << 14
MOST_RUNS = 1_000
"""More of them take ten times the space of packed ids, and a hundred times as long to read."""
MOST_PLACES = 16
"""Bytes for each id, to look ids up by their places in place of searching for each."""
ID_BYTES = 8
PACKED = pa.Codec("zstd", compression_level=1)


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


def have_no_gap(ordered: Ids) -> bool:
    """Whether ordered ids are those of rows one after the other, each once."""
    return bool(
        len(ordered)
        and ordered[-1] - ordered[0] == len(ordered) - 1
        and (ordered[1:] != ordered[:-1]).all()
    )


def are_in(ordered: Ids, ids: Ids) -> Mask:
    """Which ids are among ordered ones."""
    if not len(ordered):
        return np.zeros(len(ids), dtype=bool)
    if len(ids) > len(ordered) // 8 and have_no_gap(ordered):  # as nearly always; far quicker
        return (ids >= ordered[0]) & (ids <= ordered[-1])
    if np.array_equal(ordered, ids):
        return np.ones(len(ids), dtype=bool)
    first, last = int(ordered[0]), int(ordered[-1])
    if last - first < MOST_PLACES * min(len(ordered), len(ids)):  # as where a filter left some out
        places = np.zeros(last - first + 1, dtype=bool)
        places[ordered - first] = True
        inside = (ids >= first) & (ids <= last)
        inside[inside] = places[(ids if inside.all() else ids[inside]) - first]
        return inside
    return ordered[np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)] == ids


def distinct(ids: Ids) -> Ids:
    """Each id once, ascending; NumPy's own way takes a hundred times as long where they ascend."""
    ids = np.sort(ids, kind="stable")
    return ids[starts(ids)]


def starts(ids: Ids) -> Ids:
    """Where an id stands that is not the one before it."""
    return np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: len(ids)])


def as_ids(values: Iterable[int]) -> Ids:
    """Ids as an array."""
    return np.fromiter(values, dtype=np.int64)


def sequences(firsts: Ids, counts: Ids, steps: Ids | None = None) -> Ids:
    """Several sequences as one array, each from its first number on in steps of its own, or 1."""
    at = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(firsts, counts) + (at if steps is None else at * np.repeat(steps, counts))


@dataclass(frozen=True, slots=True)
class IdRuns:
    """A sequence of ids as runs of (first id, count, step), or packed where these are many."""

    runs: tuple[tuple[int, int, int], ...] = ()
    packed: str = ""
    """How many ids, a colon, and what `pack` made of them."""

    @classmethod
    def of(cls, ids: Ids) -> "IdRuns":
        """Encode a sequence, keeping order and repeats."""
        ends = np.append(turns(ids), len(ids) - 1)
        if len(ends) > MOST_RUNS:
            return cls(packed=f"{len(ids)}:{pack(ids)}")
        runs: list[tuple[int, int, int]] = []
        at = 0
        while at < len(ids) - 1:
            last = int(ends[np.searchsorted(ends, at, side="right")])
            runs.append((int(ids[at]), last - at + 1, int(ids[at + 1] - ids[at])))
            at = last + 1
        if at == len(ids) - 1:
            runs.append((int(ids[at]), 1, 1))
        return cls(tuple(runs))

    @classmethod
    def joined(cls, several: "Sequence[IdRuns]") -> "IdRuns":
        """One sequence after the other."""
        parts = [each for each in several if each]
        if len(parts) > 1:
            return cls.of(np.concatenate([each.ids() for each in parts]))
        return parts[0] if parts else cls()

    @classmethod
    def of_plain(cls, plain: str | Iterable[Iterable[int]]) -> "IdRuns":
        """Read what `plain` was."""
        if isinstance(plain, str):
            return cls(packed=plain)
        return cls(tuple((first, count, step) for first, count, step in plain))

    @property
    def plain(self) -> str | tuple[tuple[int, int, int], ...]:
        """As what JSON knows."""
        return self.packed or self.runs

    @classmethod
    def of_json(cls, text: str) -> "IdRuns":
        """Read what `as_json` wrote."""
        return cls.of_plain(json.loads(text))

    def as_json(self) -> str:
        """As text."""
        return json.dumps(self.plain, separators=(",", ":"))

    def ids(self) -> Ids:
        """Decode."""
        if self.packed:
            _, _, text = self.packed.partition(":")
            return unpack(text, len(self))
        if not self.runs:
            return np.empty(0, dtype=np.int64)
        return np.concatenate(
            [first + step * np.arange(count, dtype=np.int64) for first, count, step in self.runs]
        )

    def __len__(self) -> int:
        if self.packed:
            return int(self.packed[: self.packed.index(":")])
        return sum(count for _, count, _ in self.runs)


def pack(ids: Ids) -> str:
    """Ids as text: steps from one to the next, first all their lowest bytes, and so on."""
    planes = np.diff(ids, prepend=0).view(np.uint8).reshape(-1, ID_BYTES).T
    return base64.b64encode(PACKED.compress(planes.tobytes(), asbytes=True)).decode()


def unpack(text: str, count: int) -> Ids:
    """The ids that were packed."""
    planes = PACKED.decompress(base64.b64decode(text), count * ID_BYTES, asbytes=True)
    steps = np.frombuffer(planes, np.uint8).reshape(ID_BYTES, count).T
    return np.cumsum(np.ascontiguousarray(steps).view(np.int64).ravel())


def turns(ids: Ids) -> Ids:
    """Where the step to the next id differs from the step before; in parts that a cache holds."""
    found = [np.empty(0, dtype=np.int64)]
    for start in range(0, len(ids) - 2, IDS_IN_CACHE):
        steps = np.diff(ids[start : start + IDS_IN_CACHE + 2])
        found.append(np.flatnonzero(steps[1:] != steps[:-1]) + start + 1)
    return np.concatenate(found)


RowsByRun = dict[str, Ids]
"""Rows by the run whose plan their ids belong to; sorted."""


def by_run(pairs: Iterable[tuple[str, IdRuns]]) -> RowsByRun:
    """Rows of the same run together."""
    found: dict[str, list[Ids]] = {}
    for run_id, runs in pairs:
        found.setdefault(run_id, []).append(runs.ids())
    return {run_id: distinct(np.concatenate(ids)) for run_id, ids in found.items()}
