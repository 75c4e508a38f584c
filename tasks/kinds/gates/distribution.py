"""A column's distribution in few numbers: what a run leaves in the ledger for the next one.

Missing values (null, NaN) are a bin of their own: that there are more of them is drift too.
"""

import math
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.kinds.gates.values import first_values, is_number, numbers
from tasks.python_rows import python_values

Numbers = npt.NDArray[np.float64]

SAMPLE_SIZE = 100_000
TRACKED_VALUES = 10_000
KEPT_VALUES = 50
CERTAIN = 5
"""Standard deviations beyond which a count is no chance."""
SHOWN_CHARACTERS = 100
"""Of a text; the ledger keeps no documents."""
DECILES = np.linspace(0, 1, 11)
LARGEST = float(np.finfo(np.float64).max)
MISSING, OTHER = "(missing)", "(other)"


def tally_for(kind: pa.DataType, earlier: dict[str, Any] | None) -> "NumberTally | ValueTally":
    """A tally for a column of some type.

    Args:
        kind: the column's type.
        earlier: the distribution to compare with.
    """
    return NumberTally(earlier) if is_number(kind) else ValueTally(earlier)


def rows_of(distribution: dict[str, Any]) -> int:
    """How many rows a distribution is of."""
    return int(sum(distribution["counts"])) + int(distribution["missing"])


def shares(distribution: dict[str, Any]) -> list[float]:
    """A distribution as shares of all rows, bin by bin, what is missing last."""
    counts, rows = [*distribution["counts"], distribution["missing"]], rows_of(distribution)
    return [count / rows for count in counts]


def lacks_edges(earlier: dict[str, Any]) -> bool:
    """Whether a distribution has numbers, all in one bin: any others would look the same."""
    return "edges" in earlier and not earlier["edges"] and any(earlier["counts"])


def compared(
    earlier: dict[str, Any], tally: "NumberTally | ValueTally"
) -> tuple[list[str], list[float], list[float]]:
    """Bins, and the shares of them that were and are.

    Of the earlier run's values only the most frequent are kept. One of the others that is frequent
    now has a bin of its own: it had no more than the least of those that were kept.
    """
    now = tally.as_before()
    bins, expected, seen = tally.bins(), shares(earlier), shares(now)
    if isinstance(tally, NumberTally) or not now["values"]:
        return bins, expected, seen
    (*kept, other, missing), (*_, other_now, missing_now) = expected, seen
    least, rows = min(kept), sum(now["counts"]) + now["missing"]
    more = tally.more_than(least * rows)
    before = [min(least, other / len(more)) for _ in more]
    after = [count / rows for count in more.values()]
    return (
        [*bins[: len(kept)], *more, *bins[len(kept) :]],
        [*kept, *before, other - sum(before), missing],
        [*seen[: len(kept)], *after, other_now - sum(after), missing_now],
    )


class NumberTally:
    """Counts numbers between edges, and keeps a sample to find edges in.

    The bins are: below the first edge, at it, up to each next edge, above the last.
    """

    kind = "numbers"

    def __init__(self, earlier: dict[str, Any] | None) -> None:
        self.edges = np.array(earlier["edges"]) if earlier and "edges" in earlier else np.array([])
        self.counts = np.zeros(len(self.edges) + 2, dtype=np.int64)
        self.missing = 0
        self.sample = Sample()

    def add(self, column: pa.ChunkedArray) -> None:
        """Count some rows."""
        values = numbers(first_values(column))
        found = values[~np.isnan(values)]
        self.missing += len(values) - len(found)
        self.counts += counts_between(self.edges, found)
        self.sample.add(found)

    def as_before(self) -> dict[str, Any]:
        """Counts between the earlier edges."""
        return self.with_counts(self.edges, self.counts)

    def to_keep(self) -> dict[str, Any]:
        """The same: the first edges that a run had are kept."""
        return self.as_before() if len(self.edges) else self.anew()

    def anew(self) -> dict[str, Any]:
        """Counts between this run's own deciles; of very many rows from a sample."""
        values = self.sample.values
        edges = deciles(values)
        counts = counts_between(edges, values) * (self.counts.sum() / max(1, len(values)))
        return self.with_counts(edges, np.round(counts).astype(np.int64))

    def with_counts(self, edges: Numbers, counts: npt.NDArray[np.int64]) -> dict[str, Any]:
        """A distribution."""
        return {
            "kind": self.kind,
            "edges": edges.tolist(),
            "counts": counts.tolist(),
            "missing": self.missing,
        }

    def bins(self) -> list[str]:
        """What lies between the edges, in words."""
        edges = [f"{edge:.4g}" for edge in self.edges]
        if not edges:
            return ["", "any number", MISSING]
        between = [f"to {edge}" for edge in edges[1:]]
        return [f"below {edges[0]}", edges[0], *between, f"above {edges[-1]}", MISSING]


def deciles(values: Numbers) -> Numbers:
    """Edges between numbers; of infinite ones alone what parts them from all others."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return np.array([-LARGEST, LARGEST] if len(values) else [])
    return np.unique(np.quantile(finite, DECILES))


def counts_between(edges: Numbers, values: Numbers) -> npt.NDArray[np.int64]:
    """How many values lie below the first edge, at it, up to each next one, above the last."""
    at = np.searchsorted(edges, values, side="left") + 1
    if len(edges):
        at[values < edges[0]] = 0
    return np.bincount(at, minlength=len(edges) + 2)


class Sample:
    """Some of very many numbers, each with the same chance; the same ones every time."""

    def __init__(self) -> None:
        self.values, self.draws = np.array([]), np.array([])
        self.random = np.random.default_rng(0)

    def add(self, values: Numbers) -> None:
        """Take some numbers: each draws a lot, and the smallest lots stay."""
        self.values = np.concatenate([self.values, values])
        self.draws = np.concatenate([self.draws, self.random.random(len(values))])
        if len(self.values) > SAMPLE_SIZE:
            kept = np.argpartition(self.draws, SAMPLE_SIZE)[:SAMPLE_SIZE]
            self.values, self.draws = self.values[kept], self.draws[kept]


class ValueTally:
    """Counts values one by one; those that come after very many others together."""

    kind = "values"

    def __init__(self, earlier: dict[str, Any] | None) -> None:
        self.earlier: list[str] = earlier.get("values", []) if earlier else []
        self.tracked: Counter[str] = Counter(dict.fromkeys(self.earlier, 0))
        self.other = 0
        self.missing = 0

    def add(self, column: pa.ChunkedArray) -> None:
        """Count some rows."""
        counted = pa.Table.from_struct_array(pc.value_counts(first_values(column)))
        counts = counted["counts"].to_pylist()
        for found, count in zip(python_values(counted["values"]), counts, strict=True):
            value = str(found)[:SHOWN_CHARACTERS]
            if found is None:
                self.missing += count
            elif value in self.tracked or len(self.tracked) < TRACKED_VALUES:
                self.tracked[value] += count
            else:
                self.other += count

    def as_before(self) -> dict[str, Any]:
        """Counts of the values that the earlier run kept."""
        return self.over(self.earlier)

    def to_keep(self) -> dict[str, Any]:
        """Counts of this run's most frequent values."""
        return self.anew()

    def anew(self) -> dict[str, Any]:
        """The same."""
        frequent = sorted(self.tracked.items(), key=lambda item: (-item[1], item[0]))
        return self.over([value for value, count in frequent[:KEPT_VALUES] if count])

    def over(self, values: list[str]) -> dict[str, Any]:
        """Counts of some values, and of all others together."""
        counts = [self.tracked[value] for value in values]
        other = self.tracked.total() + self.other - sum(counts)
        return {
            "kind": self.kind,
            "values": values,
            "counts": [*counts, other],
            "missing": self.missing,
        }

    def more_than(self, expected: float) -> dict[str, int]:
        """Values that the earlier run has not kept, and more of each than chance explains.

        Args:
            expected: so many there would be at most.
        """
        most = expected + CERTAIN * (1 + math.sqrt(expected))
        found = self.tracked.most_common(len(self.earlier) + KEPT_VALUES)
        return {value: n for value, n in found if n > most and value not in {*self.earlier}}

    def bins(self) -> list[str]:
        """The values."""
        return [*self.earlier, OTHER, MISSING]
