"""A schedule whose times pass a day by, where clocks change, is not deployed."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deployments import lost_days
from deployments.lost_days import refuse_lost_days
from deployments.prefect_file import Schedule
from tasks.errors import InvalidSpec
from tests.flows.conftest import spec_of

BY_DAY = "{scheduled:%Y-%m-%d}"


class Now(datetime):
    """A day whose year is known."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime(2026, 1, 15, 12, tzinfo=UTC).astimezone(tz)


@pytest.fixture(autouse=True)
def a_known_year(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_days, "datetime", Now)


def refuse(cron: str, zone: str, path: str = BY_DAY, **scheduled: str) -> None:
    refuse_all(Schedule(cron=cron, timezone=zone), path, **scheduled)


def refuse_all(schedule: Schedule, path: str = BY_DAY, **scheduled: str) -> None:
    refuse_lost_days(spec_of(Path("/in") / path, scheduled=scheduled), schedule)


@pytest.mark.parametrize(
    ("cron", "zone", "scheduled", "said"),
    [
        # 01:30 there is 23:30 of the day before in UTC, but 00:30 in winter.
        (
            "30 1 * * *",
            "Europe/Berlin",
            {},
            "name 2026-10-24 and then 2026-10-26, .* set scheduled.timezone to Europe/Berlin",
        ),
        ("30 19 * * *", "America/New_York", {}, "2026-10-31 and then 2026-11-02"),
        # There is no midnight: Prefect starts at 23:00, but from Python 3.13 on at 01:00.
        pytest.param(
            "0 0 * * *",
            "Africa/Cairo",
            {"timezone": "Africa/Cairo", "offset": "-1d"},
            "name 2026-04-22 and then 2026-04-24, .* start it an hour or two later",
            marks=pytest.mark.skipif(sys.version_info >= (3, 13), reason="no day is passed by"),
        ),
        (
            "30 0 * * *",
            "Europe/Berlin",
            {"timezone": "Europe/Berlin", "offset": "-24h"},
            "name 2026-03-28 and then 2026-03-30, .* write scheduled.offset in days, such as -1d",
        ),
    ],
)
def test_a_day_that_is_passed_by_is_named(
    cron: str, zone: str, scheduled: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidSpec, match=rf"^schedules\.cron: '.*' of {zone}: .*{said}"):
        refuse(cron, zone, **scheduled)


@pytest.mark.parametrize(
    ("cron", "zone", "scheduled"),
    [
        ("30 1 * * *", "Europe/Berlin", {"timezone": "Europe/Berlin"}),
        ("0 2 * * *", "Europe/Berlin", {"timezone": "Europe/Berlin", "offset": "-1d"}),
        ("0 2 * * 1-5", "Europe/Berlin", {"timezone": "Europe/Berlin", "offset": "-1d"}),
        ("0 12 1 * *", "Europe/Berlin", {}),
        ("0 12 29 2 *", "Europe/Berlin", {}),
        ("0 3 * * *", "Europe/Berlin", {}),
        ("0 1 * * *", "Africa/Cairo", {"timezone": "Africa/Cairo"}),
        ("0 * * * *", "Europe/Berlin", {}),
        ("0 0 * * *", "UTC", {"offset": "-1d"}),
    ],
)
def test_one_day_after_the_other_is_well(cron: str, zone: str, scheduled: dict[str, str]) -> None:
    refuse(cron, zone, **scheduled)


@pytest.mark.parametrize("path", ["all", "{scheduled:%Y-%m}"])
def test_paths_that_name_no_day_pass_none_by(path: str) -> None:
    refuse("0 0 * * *", "Africa/Cairo", path=path)


DAILY = {"interval": 86_400, "anchor_date": "2026-01-01T01:30:00+01:00"}
"""At 01:30 in Berlin in winter."""


@pytest.mark.parametrize(
    ("given", "scheduled", "said"),
    [
        (DAILY | {"timezone": "Europe/Berlin"}, {}, "interval: 86400.* 2026-10-24 and then"),
        (
            {"interval": "P1D", "anchor_date": "2026-01-01T22:30:00+00:00"},
            {"timezone": "Europe/Berlin"},
            "interval: 'P1D' of UTC: .* 2026-03-28 and then 2026-03-30",
        ),
        (
            {"rrule": "FREQ=DAILY;BYHOUR=1;BYMINUTE=30", "timezone": "Europe/Berlin"},
            {},
            "rrule: 'FREQ=DAILY.* 2026-10-24 and then 2026-10-26",
        ),
        (
            {"rrule": "FREQ=DAILY", "timezone": "Africa/Cairo"},
            {"timezone": "Africa/Cairo"},
            "rrule: .* start it an hour or two later",
        ),
    ],
)
def test_days_are_also_passed_by_at_intervals_and_by_rules(
    given: dict[str, Any], scheduled: dict[str, str], said: str
) -> None:
    with pytest.raises(InvalidSpec, match=rf"^schedules\.{said}"):
        refuse_all(Schedule(**given), **scheduled)


@pytest.mark.parametrize(
    ("given", "scheduled"),
    [
        (DAILY | {"timezone": "Europe/Berlin"}, {"timezone": "Europe/Berlin"}),
        (DAILY, {}),
        (DAILY, {"timezone": "Europe/Berlin"}),
        ({"interval": 3_600}, {}),
        (
            {"interval": 36 * 3_600, "anchor_date": "2026-01-01T00:30:00+01:00"},
            {"timezone": "Europe/Berlin"},
        ),
        ({"interval": 7 * 86_400, "timezone": "Europe/Berlin"}, {"timezone": "Europe/Berlin"}),
        ({"interval": "{{ $EVERY }}", "timezone": "Europe/Berlin"}, {}),
        ({"rrule": "FREQ=DAILY;BYHOUR=2", "timezone": "Europe/Berlin"}, {"offset": "-1d"}),
        ({"rrule": "FREQ=WEEKLY;BYDAY=MO,TH", "timezone": "Europe/Berlin"}, {}),
        ({"rrule": '{"rrule": "FREQ=DAILY;BYHOUR=1", "timezone": "Europe/Berlin"}'}, {}),
        ({"rrule": "FREQ=DAILY"}, {"offset": "-1d"}),
    ],
)
def test_intervals_and_rules_of_one_day_after_the_other(
    given: dict[str, Any], scheduled: dict[str, str]
) -> None:
    refuse_all(Schedule(**given), **scheduled)
