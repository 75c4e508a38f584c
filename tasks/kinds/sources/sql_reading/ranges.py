"""Ranges of a column's values on a fixed grid: new rows never move the ranges of old ones."""

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, ClassVar

NUMBERS = re.compile(r"(-?\d+)\.\.(-?\d+)")


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

    def holds(self, column: Any) -> Any:
        """The condition that a row is in it."""
        return column.between(self.first, self.last)


@dataclass(frozen=True)
class Day:
    """The times of a day."""

    day: date

    @property
    def name(self) -> str:
        """As inputs are named."""
        return self.day.isoformat()

    def holds(self, column: Any) -> Any:
        """The condition that a row is in it."""
        from sqlalchemy import Date, and_

        # The days around it are for the index; which of their times are in it, the parts decide,
        # as they do where rows are grouped: databases do not agree on how times compare.
        around = [self.day - timedelta(days=1), self.day + timedelta(days=2)]
        if not isinstance(column.type, Date):
            around = [datetime.combine(each, datetime.min.time()) for each in around]
        own = zip(parts(column), (self.day.year, self.day.month, self.day.day), strict=True)
        return and_(column.between(*around), *(part == value for part, value in own))


@dataclass(frozen=True)
class Missing:
    """Rows whose column is empty."""

    name: ClassVar[str] = "null"

    def holds(self, column: Any) -> Any:
        """The condition that a row is in it."""
        return column.is_(None)


Range = Numbers | Day | Missing


def range_of(name: str) -> Range:
    """The range that a name stands for.

    Raises:
        ValueError: it stands for none.
    """
    if name == Missing.name:
        return Missing()
    if found := NUMBERS.fullmatch(name):
        return Numbers(int(found[1]), int(found[2]))
    return Day(date.fromisoformat(name))


def order_of(each: Range) -> tuple[int, int]:
    """Where a range comes among the others: as its values do, empty ones last."""
    match each:
        case Numbers():
            return 0, each.first
        case Day():
            return 0, each.day.toordinal()
    return 1, 0


def grid(column: Any, lowest: object, size: int) -> list[Any]:
    """What rows are grouped by, so that each group is a range; empty values are one group.

    Args:
        column: to cut.
        lowest: its lowest value, which tells what it holds; None where all are empty.
        size: numbers in a range.

    Raises:
        TypeError: it holds neither whole numbers nor times.
    """
    from sqlalchemy import literal_column

    if lowest is None:
        return [column]
    if isinstance(lowest, int):
        # Written out: databases take two parameters for two different things to group by.
        return [column - column % literal_column(str(int(size)))]
    if isinstance(lowest, date):
        return parts(column)
    raise TypeError(f"holds {type(lowest).__name__}")


def parts(column: Any) -> list[Any]:
    """Year, month and day of a column's times."""
    from sqlalchemy import extract

    return [extract(part, column) for part in ("year", "month", "day")]


def of_group(group: tuple[Any, ...], size: int) -> Range:
    """The range that a group's values stand for."""
    if group[0] is None:
        return Missing()
    if len(group) == 1:
        return Numbers.around(int(group[0]), size)
    return Day(date(*map(int, group)))
