"""Rows as they are published, beside the same rows as they come out now."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tasks.python_rows import python_rows

TOLERANCE = 1e-4
"""Of floats, as a share of a value above 1. Sums in another order, as in batches of another size,
leave differences near 1e-6 in float32."""
Rows = dict[int, list[dict[str, Any]]]
"""Rows by their ids; one may have become several, or none."""


@dataclass(frozen=True)
class Difference:
    """A value that came out otherwise; of a row that did not come out, its column is None."""

    row: int
    """Its id."""
    column: str | None
    was: Any
    now: Any


@dataclass
class Compared:
    """What came of a comparison."""

    tolerance: float
    rows: int = 0
    differences: list[Difference] = field(default_factory=list)
    largest: dict[str, float] = field(default_factory=dict)
    """By column of floats, the largest difference, be it let through or not."""

    @property
    def rows_that_differ(self) -> set[int]:
        """Ids of rows of which anything came out otherwise."""
        return {each.row for each in self.differences}

    @property
    def columns_that_differ(self) -> dict[str | None, list[Difference]]:
        """Differences by column."""
        found: dict[str | None, list[Difference]] = {}
        for each in self.differences:
            found.setdefault(each.column, []).append(each)
        return found

    def add(self, row: int, was: list[dict[str, Any]], now: list[dict[str, Any]]) -> None:
        """Compare what has become of a row."""
        self.rows += 1
        if len(was) != len(now):
            self.differences.append(Difference(row, None, len(was), len(now)))
            return
        for column in was[0]:
            for then, made in zip(was, now, strict=True):
                distance = distance_between(then[column], made[column])
                if 0 < distance < math.inf:
                    self.largest[column] = max(distance, self.largest.get(column, 0.0))
                if distance > self.tolerance:
                    self.differences.append(Difference(row, column, then[column], made[column]))
                    break


def compare(
    was: pa.Table, now: pa.Table | None, id_column: str, keys: Iterable[str], tolerance: float
) -> Compared:
    """Compare published rows with the same rows as they come out now.

    Args:
        was: those that are published, each with its id.
        now: those that came out, in the same columns; None where none did.
        id_column: where ids are.
        keys: columns by which published rows make room for others, where there are any: of what
            one input row became, that may be some.
        tolerance: largest difference of floats that is let through, as a share of a value above 1.
    """
    compared, made = Compared(tolerance), by_id(now, id_column)
    for row, then in by_id(was, id_column).items():
        own = made.get(row, [])
        if names := list(keys):
            here = {tuple(str(each[name]) for name in names) for each in then}
            own = [each for each in own if tuple(str(each[name]) for name in names) in here]
        compared.add(row, then, own)
    return compared


def by_id(rows: pa.Table | None, id_column: str) -> Rows:
    """Rows as Python's values, by their ids, in order."""
    found: Rows = {}
    for row in python_rows(rows) if rows is not None else ():
        found.setdefault(row.pop(id_column), []).append(row)
    return found


def distance_between(was: Any, now: Any) -> float:
    """How far values are from each other: 0 for equals, infinite for all but floats.

    Of floats it is a share of the first one, where that is above 1, and of lists and structs the
    largest of what is in them.
    """
    if isinstance(was, float) and isinstance(now, float):
        if was == now or (math.isnan(was) and math.isnan(now)):
            return 0.0
        distance = abs(was - now) / max(1.0, abs(was))
        return math.inf if math.isnan(distance) else distance
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        return max(map(distance_between, was, now), default=0.0)
    if isinstance(was, dict) and isinstance(now, dict) and was.keys() == now.keys():
        return max((distance_between(was[name], now[name]) for name in was), default=0.0)
    return 0.0 if was == now else math.inf
