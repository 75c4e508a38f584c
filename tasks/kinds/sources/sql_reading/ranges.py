"""Ranges of a column's values on a fixed grid: new rows never move the ranges of old ones."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, ClassVar

from tasks.kinds.sources.sql_reading.dialects import POSTGRES, SQLITE, day_parts
from tasks.kinds.sources.sql_reading.unreadable import UnreadableTime

NUMBERS = re.compile(r"(-?\d+)\.\.(-?\d+)")
SMALLEST, LARGEST = -(2**63), 2**63 - 1
"""Of the numbers of Postgres and SQLite, which take no others; the outermost ranges have some."""


@dataclass(frozen=True)
class Numbers:
    """Whole numbers from the first to the last, both included."""

    first: int
    last: int

    @classmethod
    def around(cls, step: int, size: int) -> "Numbers":
        """The range of a multiple of its size, as SQL's remainder leaves it.

        The remainder of a negative number is negative, so that the range around 0 has both signs.
        """
        if step == 0:
            return cls(1 - size, size - 1)
        return cls(step, step + size - 1) if step > 0 else cls(step - size + 1, step)

    @property
    def name(self) -> str:
        """As inputs are named."""
        return f"{self.first}..{self.last}"

    def holds(self, column: Any, backend: str) -> Any:
        """The condition that a row is in it."""
        if backend in (POSTGRES, SQLITE):
            return column.between(max(self.first, SMALLEST), min(self.last, LARGEST))
        return column.between(self.first, self.last)


@dataclass(frozen=True)
class Day:
    """The times of a day."""

    day: date

    @property
    def name(self) -> str:
        """As inputs are named."""
        return self.day.isoformat()

    def holds(self, column: Any, backend: str) -> Any:
        """The condition that a row is in it."""
        from sqlalchemy import and_

        own = (self.day.year, self.day.month, self.day.day)
        parts = zip(day_parts(column, backend), own, strict=True)
        return and_(*self.around(column), *(part == value for part, value in parts))

    def around(self, column: Any) -> Iterator[Any]:
        """Conditions for the index: that a row is of the days around it, as far as there are any.

        Which of their times are in it, the parts decide, as they do where rows are grouped:
        databases do not agree on how times compare.
        """
        from sqlalchemy import Date

        given = date if isinstance(column.type, Date) else datetime
        first, last = self.day.toordinal() - 1, self.day.toordinal() + 2
        if first >= date.min.toordinal():
            yield column >= given.fromordinal(first)
        if last <= date.max.toordinal():
            yield column <= given.fromordinal(last)


@dataclass(frozen=True)
class Missing:
    """Rows whose column is empty."""

    name: ClassVar[str] = "null"

    def holds(self, column: Any, backend: str) -> Any:
        """The condition that a row is in it."""
        return column.is_(None)


@dataclass(frozen=True)
class Undated:
    """Rows whose time is on no day that Python has: infinity, or in SQLite what is no time."""

    name: ClassVar[str] = "undated"

    def holds(self, column: Any, backend: str) -> Any:
        """The condition that a row is in it."""
        from sqlalchemy import and_

        return and_(column.is_not(None), day_parts(column, backend)[0].is_(None))


Range = Numbers | Day | Missing | Undated


def range_of(name: str) -> Range:
    """The range that a name stands for.

    Raises:
        ValueError: it stands for none.
    """
    if name == Missing.name:
        return Missing()
    if name == Undated.name:
        return Undated()
    if found := NUMBERS.fullmatch(name):
        return Numbers(int(found[1]), int(found[2]))
    return Day(date.fromisoformat(name))


def is_range(name: str) -> bool:
    """Whether a name stands for a range."""
    try:
        range_of(name)
    except ValueError:
        return False
    return True


def order_of(each: Range) -> tuple[int, int]:
    """Where a range comes among the others: as its values do, empty ones last."""
    match each:
        case Numbers():
            return 0, each.first
        case Day():
            return 0, each.day.toordinal()
        case Undated():
            return 1, 0
    return 1, 1


def grid(column: Any, lowest: object, size: int, backend: str) -> list[Any]:
    """What rows are grouped by, so that each group is a range; empty values are one group.

    Args:
        column: to cut.
        lowest: its lowest value, which tells what it holds; None where all are empty.
        size: numbers in a range.
        backend: the database's kind.

    Raises:
        TypeError: it holds neither whole numbers nor times.
    """
    from sqlalchemy import case, literal_column

    if lowest is None:
        return [column]
    if isinstance(lowest, int) and not isinstance(lowest, bool):
        # Written out: databases take two parameters for two different things to group by.
        return [column - column % literal_column(str(int(size)))]
    if isinstance(lowest, date | UnreadableTime):
        is_there = case((column.is_not(None), literal_column("1")))
        return [*day_parts(column, backend), is_there]
    raise TypeError(f"holds {type(lowest).__name__}")


def of_group(group: tuple[Any, ...], size: int) -> Range:
    """The range that a group's values stand for."""
    if group[-1] is None:
        return Missing()
    if len(group) == 1:
        return Numbers.around(int(group[0]), size)
    return Undated() if group[0] is None else Day(date(*map(int, group[:-1])))
