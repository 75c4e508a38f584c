"""Steps of time: weeks and days by the calendar and its wall clock, hours and minutes exactly."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

STEP = re.compile(r"([+-]?\d{1,4})([wdhm])")
UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
}


def parse_step(text: str) -> tuple[int, str]:
    """A count and its unit: `-6h` is -6 and `h`.

    Raises:
        ValueError: it is no step; says how one is written.
    """
    found = STEP.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{text!r} is not a step of time: write weeks, days, hours or minutes, such as 1w, "
            "-1d, 6h or -30m"
        )
    return int(found[1]), found[2]


def find_zone(name: str) -> ZoneInfo:
    """A timezone by its IANA name.

    Raises:
        ValueError: there is none of that name.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(
            f"{name!r} is not a timezone: use a name of the IANA database, such as Europe/Berlin "
            "or UTC"
        ) from error


def shift(time: datetime, step: str, times: int = 1) -> datetime:
    """A time moved by so many steps.

    A day later is the same time on the next day's clock, 23 or 25 hours on where clocks change;
    a time that a clock skips is read as it would have been without the change.

    Args:
        time: with its timezone.
        step: as in `-1d`.
        times: how often to go the step.

    Raises:
        OverflowError: no calendar goes that far.
    """
    count, unit = parse_step(step)
    if not times:  # which of two times of one name it is would be lost by adding nothing
        return time.astimezone(UTC).astimezone(time.tzinfo)
    by = UNITS[unit] * count * times
    if unit in "wd":
        time = time + by  # Python counts with the wall clock here
        return time.astimezone(UTC).astimezone(time.tzinfo)
    return (time.astimezone(UTC) + by).astimezone(time.tzinfo)
