"""Sets of row ids as ranges: they take the memory of the ranges, however many rows are in them."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tasks.protocol.ids import (
    ROW_BITS,
    IdRuns,
    Ids,
    Mask,
    are_in,
    as_ids,
    distinct,
    row_of,
    sequences,
    shard_of,
)


@dataclass(frozen=True)
class Spans:
    """Ids one after another, [start, stop), and who names them; in no order, repeats too.

    None reaches beyond its shard.
    """

    starts: Ids
    stops: Ids
    owners: Ids

    @classmethod
    def of(cls, named: Iterable[tuple[IdRuns, ...]]) -> "Spans":
        """What each of several owners names."""
        each, packed = list[list[tuple[int, int, int]]](), list[Spans]()
        for owner, own in enumerate(named):
            many = any(ids.packed for ids in own)
            each.append([] if many else [run for ids in own for run in ids.runs])
            if many:
                packed.append(cls.of_ids(np.concatenate([ids.ids() for ids in own]), owner))
        runs = np.array([run for own in each for run in own], dtype=np.int64).reshape(-1, 3)
        owners = np.repeat(np.arange(len(each)), as_ids(map(len, each)))
        return cls.together([cls.of_runs(runs, owners), *packed])

    @classmethod
    def of_runs(cls, runs: Ids, owners: Ids) -> "Spans":
        """Of (first id, count, step) each, and who names it."""
        first, count, step = runs.T
        last = first + count - 1
        is_span = ((step == 1) | (count == 1)) & (shard_of(first) == shard_of(last))
        if is_span.all():
            return cls(first, last + 1, owners)
        single = sequences(*runs[~is_span].T)
        return cls(
            np.append(first[is_span], single),
            np.append(last[is_span] + 1, single + 1),
            np.append(owners[is_span], np.repeat(owners[~is_span], count[~is_span])),
        )

    @classmethod
    def of_ids(cls, ids: Ids, owner: int) -> "Spans":
        """Of very many, which one owner names: what a filter took and what it left fill up."""
        ids = np.sort(ids, kind="stable")
        is_first = np.ones(len(ids), dtype=bool)
        is_first[1:] = (np.diff(ids) != 1) | (row_of(ids[1:]) == 0)
        is_last = np.append(is_first[1:], True)
        return cls(ids[is_first], ids[is_last] + 1, np.full(is_first.sum(), owner))

    @classmethod
    def together(cls, parts: "list[Spans]") -> "Spans":
        """Those of several."""
        if len(parts) == 1:
            return parts[0]
        columns = ("starts", "stops", "owners")
        return cls(*(np.concatenate([getattr(each, name) for each in parts]) for name in columns))

    def __getitem__(self, chosen: Mask | Ids) -> "Spans":
        """Some of them."""
        return Spans(self.starts[chosen], self.stops[chosen], self.owners[chosen])

    def of_owners(self, chosen: Mask) -> "Spans":
        """Those of some owners."""
        return self if chosen.all() else self[chosen[self.owners]]

    def joined(self) -> "IdRanges":
        """Their ids, each once."""
        return IdRanges.joined(self.starts, self.stops)

    def shared(self) -> "Spans":
        """Those that have an id in common with another, by owner."""
        order = np.argsort(self.starts, kind="stable")
        starts, stops = self.starts[order], self.stops[order]
        shared = np.zeros(len(order), dtype=bool)
        shared[1:] = starts[1:] < np.maximum.accumulate(stops)[:-1]
        shared[:-1] |= stops[:-1] > starts[1:]
        found = self[order[shared]]
        return found[np.argsort(found.owners, kind="stable")]


@dataclass(frozen=True)
class IdRanges:
    """A set of ids as [start, stop): ascending, apart, none beyond its shard."""

    starts: Ids
    stops: Ids

    @classmethod
    def of(cls, named: Iterable[tuple[IdRuns, ...]]) -> "IdRanges":
        """All ids that owners name, each once; those of one owner may fill each other's gaps."""
        return Spans.of(named).joined()

    @classmethod
    def joined(cls, starts: Ids, stops: Ids) -> "IdRanges":
        """Of spans that may touch or overlap."""
        if not len(starts):
            return cls(starts, stops)
        order = np.argsort(starts, kind="stable")
        starts, reach = starts[order], np.maximum.accumulate(stops[order])
        is_first = np.ones(len(starts), dtype=bool)
        is_first[1:] = starts[1:] >= reach[:-1] + (row_of(starts[1:]) > 0)
        is_last = np.append(is_first[1:], True)
        return cls(starts[is_first], reach[is_last])

    @classmethod
    def of_json(cls, text: str) -> "IdRanges":
        """Read what `as_json` wrote."""
        edges = IdRuns.of_json(text).ids()
        return cls(edges[::2], edges[1::2])

    def as_json(self) -> str:
        """As text: starts and stops in turn, which take little however many rows are between."""
        return IdRuns.of(np.column_stack([self.starts, self.stops]).ravel()).as_json()

    def __or__(self, other: "IdRanges") -> "IdRanges":
        """Ids of either."""
        if not len(self.starts) or not len(other.starts):
            return self if len(self.starts) else other
        starts, stops = np.append(self.starts, other.starts), np.append(self.stops, other.stops)
        return IdRanges.joined(starts, stops)

    def __sub__(self, other: "IdRanges") -> "IdRanges":
        """Ids of this one that are not in the other."""
        if not len(self.starts) or not len(other.starts):
            return self
        edges = distinct(np.concatenate([self.starts, self.stops, other.starts, other.stops]))
        left = (np.diff(self.rank(edges)) > 0) & (np.diff(other.rank(edges)) == 0)
        return IdRanges.joined(edges[:-1][left], edges[1:][left])

    def rank(self, ids: Ids) -> Ids:
        """How many ids of the set are smaller than each of `ids`."""
        if not len(self.starts):
            return np.zeros(len(ids), dtype=np.int64)
        lengths = self.stops - self.starts
        before = np.cumsum(lengths) - lengths
        at = np.maximum(np.searchsorted(self.starts, ids, side="right") - 1, 0)
        return before[at] + np.clip(ids - self.starts[at], 0, lengths[at])

    def has(self, ids: Ids) -> Mask:
        """Which of `ids` are in the set."""
        if not len(self.starts):
            return np.zeros(len(ids), dtype=bool)
        at = np.searchsorted(self.starts, ids, side="right") - 1
        return (at >= 0) & (ids < self.stops[at])

    def count_in(self, shards: Ids) -> Ids:
        """How many ids of the set each shard has."""
        return self.rank((shards + 1) << ROW_BITS) - self.rank(shards << ROW_BITS)

    def in_shards(self, shards: Ids) -> "IdRanges":
        """Those of some shards, which ascend."""
        chosen = are_in(shards, shard_of(self.starts))
        return IdRanges(self.starts[chosen], self.stops[chosen])

    def ids(self) -> Ids:
        """One by one, ascending."""
        return sequences(self.starts, self.stops - self.starts)

    def __len__(self) -> int:
        """How many ids, not ranges."""
        return int((self.stops - self.starts).sum())


def late(shared: Spans) -> set[int]:
    """Owners that name an id twice, or one that an earlier owner has who is not late himself.

    Args:
        shared: spans that have an id in common with another, by owner.
    """
    if not len(shared.starts):
        return set()
    # Between two edges all ids are named by the same spans, so that one bit stands for them.
    edges = distinct(np.append(shared.starts, shared.stops))
    begin = np.searchsorted(edges, shared.starts)
    counts = np.searchsorted(edges, shared.stops) - begin
    is_named = np.zeros(len(edges), dtype=bool)
    found: set[int] = set()
    owners, first = np.unique(shared.owners, return_index=True)
    bounds = pairwise([*first.tolist(), len(begin)])
    for owner, (start, stop) in zip(owners.tolist(), bounds, strict=True):
        pieces = sequences(begin[start:stop], counts[start:stop])
        if is_named[pieces].any() or len(distinct(pieces)) < len(pieces):
            found.add(owner)
        else:
            is_named[pieces] = True
    return found
