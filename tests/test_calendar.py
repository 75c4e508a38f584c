"""Steps of time where clocks change."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.calendar import find_zone, parse_step, shift

BERLIN = find_zone("Europe/Berlin")


def berlin(month: int, day: int, hour: int, minute: int = 0, fold: int = 0) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=BERLIN, fold=fold)


@pytest.mark.parametrize(
    ("time", "step", "moved"),
    [
        (berlin(1, 5, 2), "-1d", berlin(1, 4, 2)),
        # Clocks go forward on 29 March at 2:00, and back on 25 October at 3:00.
        (berlin(3, 30, 2), "-1w", berlin(3, 23, 2)),
        (berlin(3, 29, 12), "-1d", berlin(3, 28, 12)),
        (berlin(3, 29, 12), "-24h", berlin(3, 28, 11)),
        (berlin(3, 30, 2, 30), "-1d", berlin(3, 29, 3, 30)),
        (berlin(10, 25, 12), "-1d", berlin(10, 24, 12)),
        (berlin(10, 25, 12), "-24h", berlin(10, 24, 13)),
        (berlin(10, 25, 2, 30, fold=1), "-60m", berlin(10, 25, 2, 30)),
        (berlin(10, 25, 2, 30), "1h", berlin(10, 25, 2, 30, fold=1)),
    ],
)
def test_shift(time: datetime, step: str, moved: datetime) -> None:
    found = shift(time, step)
    assert found.isoformat() == moved.isoformat()


@pytest.mark.parametrize("step", ["", "1", "d", "1y", "1d2h", "1.5d", "--1d", "12345d", "1D"])
def test_no_steps(step: str) -> None:
    with pytest.raises(ValueError, match="such as 1w, -1d, 6h or -30m"):
        parse_step(step)


@pytest.mark.parametrize("name", ["Mars/Olympus", "Europe", "", "../UTC", "/etc/localtime"])
def test_no_zones(name: str) -> None:
    with pytest.raises(ValueError, match="is not a timezone"):
        find_zone(name)


@given(
    time=st.datetimes(datetime(1971, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC)),
    count=st.integers(-999, 999),
    unit=st.sampled_from("wdhm"),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia"]),
)
def test_days_keep_the_clock_and_hours_the_distance(
    time: datetime, count: int, unit: str, zone: str
) -> None:
    local = time.astimezone(find_zone(zone))
    moved = shift(local, f"{count}{unit}")
    by = {"w": timedelta(weeks=1), "d": timedelta(days=1), "h": timedelta(hours=1)}
    wanted = by.get(unit, timedelta(minutes=1)) * count
    if unit in "hm":
        assert moved.astimezone(UTC) - time == wanted
    else:
        on_the_clock = moved.replace(tzinfo=None) - local.replace(tzinfo=None)
        # A time that the clock skips is read as the one that it shows then.
        skipped = local + wanted
        is_skipped = skipped.astimezone(UTC).astimezone(skipped.tzinfo).replace(
            tzinfo=None
        ) != skipped.replace(tzinfo=None)
        assert on_the_clock == wanted or is_skipped
