"""Finds schedules that pass a day by where clocks change.

Prefect starts a run whose time the clock skips an hour earlier, which may be the day before; and a
time that is one day's by the schedule's zone may be another's by that of the spec's paths, in
summer only. Either way a day's inputs would be taken twice, and another's never.
"""

import asyncio
from datetime import date, datetime, timedelta
from itertools import pairwise

from deployments.prefect_file import Schedule
from tasks.calendar import find_zone
from tasks.errors import InvalidSpec
from tasks.scheduled import at_time, day_between, is_scheduled
from tasks.spec import BatchInferenceSpec

A_YEAR_AND_MORE = timedelta(days=400)
"""Clocks change both ways in it."""


def refuse_lost_days(spec: BatchInferenceSpec, schedule: Schedule) -> None:
    """See that a schedule's times name one day after the other.

    Args:
        spec: of the deployment, with its placeholders.
        schedule: of the deployment; one that comes at several times of day is let be.

    Raises:
        InvalidSpec: they pass one by.
    """
    if schedule.is_filled_in or not is_scheduled(spec):
        return
    days = passed_by(spec, schedule)
    if days is not None:
        before, after = days
        zone, of_paths = schedule.zone, spec.scheduled.timezone
        way_out = "start it an hour or two later"
        if zone != of_paths:
            way_out = f"set scheduled.timezone to {zone}"
        elif (spec.scheduled.offset or "d")[-1] in "hm":
            way_out = (
                "write scheduled.offset in days, such as -1d, which follow the calendar, or "
                "leave it out if it stays within a day"
            )
        raise InvalidSpec.at(
            f"schedules.{schedule.kind}",
            getattr(schedule, schedule.kind),
            f"of {zone}: because clocks change there, the paths (scheduled.timezone {of_paths}) "
            f"name {before} and then {after}, and no run would take what lies between: {way_out}",
        )


def passed_by(spec: BatchInferenceSpec, schedule: Schedule) -> tuple[date, date] | None:
    """Two days, one named after the other, between which the source's paths pass one by.

    None where there are none, or where other times take the inputs of that day, as of its month.
    """
    zone = schedule.zone
    now = datetime.now(find_zone(zone)).replace(tzinfo=None)
    shown = times_of(schedule, "UTC", now)
    if len({each.time() for each in shown}) > 1:
        return None  # more than one a day, or such as pass days by in any case, as each 36 hours
    by_calendar = [each.date() for each in shown]
    times = times_of(schedule, zone, now)
    taken = [at_time(spec, each).source.path for each in times]
    for wanted, (one, next_one) in zip(pairwise(by_calendar), pairwise(times), strict=False):
        found = day_between(spec, one, next_one, wanted[1] - wanted[0])
        if found and found[2] not in taken:
            return found[:2]
    return None


def times_of(schedule: Schedule, zone: str, after: datetime) -> list[datetime]:
    """When Prefect starts runs.

    Args:
        schedule: says when.
        zone: whose clock it is to go by; UTC's shows each time once.
        after: as that clock shows it.
    """
    start = after.replace(tzinfo=find_zone(zone))
    end, once_a_day = start + A_YEAR_AND_MORE, A_YEAR_AND_MORE.days
    prefects = schedule.on_clock(zone)
    return [*asyncio.run(prefects.get_dates(n=once_a_day, start=start, end=end))]
