"""The scheduled time: what a run is about, however late or often it runs."""

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

from tasks.calendar import find_zone, shift
from tasks.errors import InvalidSpec
from tasks.kinds.placeholders import at_any_time, fill, is_timed
from tasks.spec import BatchInferenceSpec

STEPS = ("1m", "1h", "12h", "1d", "1w", "31d", "366d")
NEIGHBOURS = [f"{sign}{step}" for step in STEPS for sign in "+-"]
"""Steps to other times: of an output for a day, a month or a year at least one leads not out, and
of one for all times at least one leads to other inputs, were they those of a whole year."""


def at_time(spec: BatchInferenceSpec, time: datetime) -> BatchInferenceSpec:
    """The spec with its paths filled in; the same one where none has a placeholder.

    Args:
        spec: as it was written.
        time: when the run was to start; without a timezone in the spec's.

    Raises:
        InvalidSpec: scheduled.offset leads out of the calendar.
    """
    return filled_at(spec, data_time(spec, time)) if is_scheduled(spec) else spec


def filled_at(spec: BatchInferenceSpec, at: datetime) -> BatchInferenceSpec:
    """The spec with its paths filled in with a time as it is."""
    path, exclude = spec.source.path, spec.source.exclude
    filled = fill(path, at) if isinstance(path, str) else [fill(each, at) for each in path]
    filled_in = spec.with_part("source", path=filled, exclude=[fill(each, at) for each in exclude])
    return filled_in.with_part("sink", path=fill(spec.sink.path, at))


def is_scheduled(spec: BatchInferenceSpec) -> bool:
    """Whether any of the spec's paths has a placeholder."""
    return any(map(is_timed, [*spec.source.paths, *spec.source.exclude, spec.sink.path]))


def shares_output(spec: BatchInferenceSpec, time: datetime) -> bool:
    """Whether runs of other scheduled times, with inputs of their own, go to the same output.

    Args:
        spec: as it was written.
        time: that a run is of.
    """
    if not is_scheduled(spec):
        return False
    at = in_zone(spec, time)
    here = at_time(spec, at)
    for step in NEIGHBOURS:
        with suppress(OverflowError, InvalidSpec):  # the calendar ends there
            there = at_time(spec, shift(at, step))
            if there.sink.path == here.sink.path and there.source.path != here.source.path:
                return True
    return False


def timed_inputs(spec: BatchInferenceSpec) -> tuple[str, ...]:
    """Globs for the inputs of all scheduled times.

    Args:
        spec: as it was written.
    """
    zone = find_zone(spec.scheduled.timezone)
    timed = filter(is_timed, spec.source.paths)
    return tuple(glob for path in timed for glob in at_any_time(path, zone))


def in_zone(spec: BatchInferenceSpec, time: datetime) -> datetime:
    """A time in the spec's timezone; one without a timezone is taken as written there.

    Raises:
        InvalidSpec: no calendar has it there.
    """
    zone = find_zone(spec.scheduled.timezone)
    if time.tzinfo is None:
        time = time.replace(tzinfo=zone)
    # Through UTC, since a time that the clock skips has to become one that it shows.
    try:
        return datetime.fromtimestamp(time.timestamp(), UTC).astimezone(zone)
    except (ValueError, OverflowError) as error:
        problem = f"is not in the calendar of scheduled.timezone {spec.scheduled.timezone}"
        raise InvalidSpec.at("the scheduled time", time.isoformat(), problem) from error


def time_used(spec: BatchInferenceSpec, time: datetime) -> datetime | None:
    """The time in the spec's timezone; None where no path asks for it."""
    return in_zone(spec, time) if is_scheduled(spec) else None


def data_time(spec: BatchInferenceSpec, time: datetime) -> datetime:
    """The time that the paths are filled in with: the scheduled time, moved by the offset."""
    at = in_zone(spec, time)
    try:
        return shift(at, spec.scheduled.offset) if spec.scheduled.offset else at
    except OverflowError as error:
        problem = f"from {at.isoformat()} leads to a date outside the calendar"
        raise InvalidSpec.at("scheduled.offset", spec.scheduled.offset, problem) from error


def day_between(
    spec: BatchInferenceSpec, one: datetime, next_one: datetime, apart: timedelta
) -> tuple[date, date, str | list[str]] | None:
    """Two days that times name one after the other, and a source's paths of the day between them.

    Where clocks change, hours of an offset may lead past a day. None where there are none between.

    Args:
        spec: as it was written.
        one: a scheduled time.
        next_one: the one that follows it.
        apart: how far they are from each other by the calendar.
    """
    at = data_time(spec, one)
    before, after = at.date(), data_time(spec, next_one).date()
    if after - before <= apart:
        return None
    return before, after, filled_at(spec, shift(at, "1d")).source.path


def parse_time(field: str, text: str) -> datetime:
    """A time as people write it.

    Raises:
        InvalidSpec: it is none; names the field.
    """
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        problem = "is not a time: write it like 2026-01-31T02:00 or 2026-01-31T02:00+01:00"
        raise InvalidSpec.at(field, text, problem) from error


def time_of_flow_run(flow_run: Any) -> datetime:
    """The scheduled time of a flow run, for whoever has nothing but the run as Prefect keeps it.

    It is that of the parameters, else the one that Prefect meant it to start at: a late start and
    a retry do not change that.
    """
    given = flow_run.parameters.get("scheduled_time")
    if isinstance(given, str):
        return datetime.fromisoformat(given)
    found: datetime = given or flow_run.expected_start_time or datetime.now(UTC)
    return found
