"""Rows as they are published, beside the same rows as they come out now."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.counted import counted
from tasks.kinds.tensors import is_tensor, tensor_from
from tasks.python_rows import python_rows

TOLERANCE = 1e-4
"""Of floats, as a share of the value. Sums in another order, as in batches of another size, leave
differences near 1e-6 in float32."""
SET_ASIDE = "set aside"
Row = dict[str, Any]
Rows = dict[int, list[Row]]
"""Rows by their ids; one may have become several, or none."""
Keys = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Outcomes:
    """What became of some input rows."""

    rows: Rows
    """Those that are written, in the same columns, by the id of the input row."""
    aside: frozenset[int]
    """Ids of those that are set aside."""
    unread: frozenset[int] = frozenset()
    """Ids of those of which nobody can tell, since others have changed the file they were in."""
    changed_files: tuple[str, ...] = ()
    """What is said of each such file."""

    def without(self, ids: frozenset[int]) -> "Outcomes":
        """The same without some rows."""
        rows = {row: rows for row, rows in self.rows.items() if row not in ids}
        return Outcomes(rows, self.aside - ids)

    def told(self, row: int) -> str:
        """What became of one, in words."""
        return SET_ASIDE if row in self.aside else counted(len(self.rows.get(row, ())), "row")


@dataclass(frozen=True)
class Difference:
    """A value that came out otherwise; its column is None where the row as a whole did."""

    row: int
    """The input row's id."""
    column: str | None
    was: Any
    now: Any


@dataclass
class Compared:
    """What came of a comparison."""

    tolerance: float
    rows: int = 0
    """Input rows that were compared, those set aside and filtered among them."""
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

    def add(self, row: int, was: list[Row], now: list[Row], smallest: dict[str, float]) -> None:
        """Compare the values of what has become of a row.

        Args:
            row: its id.
            was: as it is published.
            now: as many as it has come out as.
            smallest: by column, the value below which a difference is no larger a share.
        """
        for column in was[0] if was else ():
            for then, made in zip(was, now, strict=True):
                distance = distance_between(then[column], made[column], smallest.get(column, 1.0))
                if 0 < distance < math.inf:
                    self.largest[column] = max(distance, self.largest.get(column, 0.0))
                if distance == math.inf or distance > self.tolerance:
                    self.differences.append(Difference(row, column, then[column], made[column]))
                    break


def compare(
    chosen: Iterable[int],
    was: Outcomes,
    now: Outcomes,
    partition_by: list[str],
    tolerance: float,
) -> Compared:
    """Compare what has become of input rows with what becomes of them now.

    Args:
        chosen: ids of the input rows.
        was: as it is published.
        now: as it comes out.
        partition_by: columns by which rows of one input row lie in several files, the order of
            which says nothing.
        tolerance: largest difference of floats that is let through, as a share of the value; of
            values below 1 as a share of the column's largest one, or of 1.
    """
    compared, smallest = Compared(tolerance), smallest_of(was.rows)
    for row in sorted({*chosen} | now.rows.keys()):
        then, made = (ordered(each.rows.get(row, []), partition_by) for each in (was, now))
        compared.rows += 1
        if len(then) != len(made) or (row in was.aside) != (row in now.aside):
            compared.differences.append(Difference(row, None, was.told(row), now.told(row)))
        else:
            compared.add(row, then, made, smallest)
    return compared


def ordered(rows: list[Row], partition_by: list[str]) -> list[Row]:
    """What became of one input row, in an order that is the same each time."""
    return sorted(rows, key=lambda row: [str(row[name]) for name in partition_by])


def without_superseded(
    was: Rows, now: Rows, key: list[str], are_published: Callable[[Keys], list[bool]]
) -> Rows:
    """Rows as they come out, less those whose key is published of other input rows.

    Published rows have made room for newer ones of their key, so that they are not to be missed.

    Args:
        was: as it is published.
        now: as it comes out.
        key: its columns.
        are_published: which of some keys are.
    """

    def key_of(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in key)

    own = {row: {key_of(each) for each in was.get(row, ())} for row in now}
    made = ((row, key_of(each)) for row, rows in now.items() for each in rows)
    others = [*dict.fromkeys(name for row, name in made if name not in own[row])]
    told = zip(others, are_published(others), strict=True)
    gone = {name for name, is_there in told if is_there}
    return {
        row: [each for each in rows if key_of(each) in own[row] or key_of(each) not in gone]
        for row, rows in now.items()
    }


def by_id(tables: Iterable[pa.Table], id_column: str) -> Rows:
    """Rows as Python's values, by their ids, in order; arrays of differing shapes as NumPy's."""
    found: Rows = {}
    for rows in tables:  # whose types may differ
        tensors = [each.name for each in rows.schema if is_tensor(each.type)]
        for row in python_rows(rows):
            row |= {name: tensor_from(row[name]) for name in tensors}
            found.setdefault(row.pop(id_column), []).append(row)
    return found


def smallest_of(rows: Rows) -> dict[str, float]:
    """By column the largest size of a float in it, or 1: smaller values are compared with that."""
    largest: dict[str, float] = {}
    for own in rows.values():
        for row in own:
            for column, value in row.items():
                sizes = (abs(each) for each in floats_in(value) if math.isfinite(each))
                largest[column] = max([largest.get(column, 0.0), *sizes])
    return {column: min(size, 1.0) for column, size in largest.items()}


def floats_in(value: Any) -> Iterator[float]:
    """All floats of a value, however deep."""
    if isinstance(value, float):
        yield value
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
        yield float(np.abs(value[np.isfinite(value)]).max(initial=0.0))  # as good as all
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from floats_in(each)
    elif isinstance(value, dict):
        yield from floats_in([*value.values()])


def distance_between(was: Any, now: Any, smallest: float = 1.0) -> float:
    """How far values are from each other: 0 for equals, infinite for all but floats.

    Of floats it is a share of the first one, and of lists, maps and structs the largest of what is
    in them.

    Args:
        was: the one.
        now: the other.
        smallest: of a float that is smaller than this, it is a share of this.
    """
    if isinstance(was, float) and isinstance(now, float):
        if was == now or (math.isnan(was) and math.isnan(now)):
            return 0.0
        whole = max(smallest, abs(was))
        distance = abs(was - now) / whole if whole else math.inf
        return math.inf if math.isnan(distance) else distance
    if isinstance(was, np.ndarray) and isinstance(now, np.ndarray):
        return distance_of_arrays(was, now, smallest)
    if isinstance(was, (list, tuple)) and isinstance(now, (list, tuple)) and len(was) == len(now):
        pairs = zip(was, now, strict=True)
        return max((distance_between(*pair, smallest) for pair in pairs), default=0.0)
    if isinstance(was, dict) and isinstance(now, dict) and was.keys() == now.keys():
        return distance_between([*was.values()], [now[name] for name in was], smallest)
    has_array = isinstance(was, np.ndarray) or isinstance(now, np.ndarray)
    return 0.0 if not has_array and was == now else math.inf


def distance_of_arrays(was: np.ndarray, now: np.ndarray, smallest: float) -> float:
    """The same of arrays of any shape."""
    if was.shape != now.shape or was.dtype != now.dtype:
        return math.inf
    if was.dtype.kind != "f":
        return 0.0 if np.array_equal(was, now) else math.inf
    first, second = was.astype(np.float64), now.astype(np.float64)
    is_same = (first == second) | (np.isnan(first) & np.isnan(second))
    with np.errstate(all="ignore"):  # of zeros, NaN and infinity
        shares = np.abs(first - second) / np.maximum(smallest, np.abs(first))
    far = np.where(np.isnan(shares), math.inf, shares)
    return float(np.where(is_same, 0.0, far).max(initial=0.0))
