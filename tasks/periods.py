"""A range of scheduled times as runs: one for each output that the spec's paths lead to."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from tasks.calendar import parse_step, shift
from tasks.errors import InvalidSpec
from tasks.kinds.placeholders import is_timed, literal
from tasks.scheduled import at_time, day_between, in_zone
from tasks.spec import BatchInferenceSpec

MAX_PERIODS = 10_000
EVERY_DAY = "1d"
"""The step of a range of which none is given."""
START, END, EVERY = "--from (start)", "--to (end)", "--every"
"""A range as the command line names it, and the flow, whose form has other words for its ends."""


@dataclass(frozen=True)
class Portion:
    """One run of a backfill: the periods whose rows go to one output."""

    written: BatchInferenceSpec
    """The spec with the placeholders of its one time; of several, with all of their paths."""
    times: tuple[datetime, ...]
    """Scheduled times, oldest first; none where the spec names no time."""

    @property
    def spec(self) -> BatchInferenceSpec:
        """The spec, filled in."""
        # Of several times no placeholder is left: any time does.
        return at_time(self.written, self.times[0]) if self.times else self.written

    @property
    def flow_run_name(self) -> str:
        """What a backfill calls the flow run that does it, which is found by that."""
        return f"{self.written.name} {self.name}"

    @property
    def scheduled_time(self) -> datetime | None:
        """What the flow is to fill the spec in with."""
        return self.times[0] if len(self.times) == 1 else None

    @property
    def name(self) -> str:
        """The period, or the first and the last."""
        ends = dict.fromkeys(label(time) for time in (*self.times[:1], *self.times[-1:]))
        return "..".join(ends) or "everything"


def label(time: datetime) -> str:
    """A scheduled time, as short as it can be said."""
    if (time.hour, time.minute, time.second) == (0, 0, 0):
        return f"{time:%Y-%m-%d}"
    return time.isoformat(timespec="minutes")


def portions(
    spec: BatchInferenceSpec,
    start: datetime | None,
    end: datetime | None,
    every: str,
    now: datetime | None = None,
) -> list[Portion]:
    """The runs of a backfill, oldest first.

    Args:
        spec: as it was written.
        start: the first scheduled time; without a timezone in the spec's.
        end: the last, itself included.
        every: the step between them, as in `1d`.
        now: what placeholders of `exclude` stand for where there is no range.

    Raises:
        InvalidSpec: the range is none, or does not fit the spec's paths.
    """
    is_timed_source = any(map(is_timed, spec.source.paths))
    if start is None and end is None:
        if is_timed_source or is_timed(spec.sink.path):
            raise needs_range(spec)
        if every != EVERY_DAY:
            problem = f"has no effect without a range: give {START} and {END}, or leave it out"
            raise InvalidSpec.at(EVERY, every, problem)
        return [Portion(spec if now is None else excluding_at(spec, now), ())]
    if start is None or end is None:
        given, other = (START, END) if start else (END, START)
        raise InvalidSpec.at(given, str(start or end), f"needs {other} too")
    if not is_timed_source:
        problem = "has no {scheduled:...}, so no input belongs to a period: leave out the range"
        raise InvalidSpec.at("source.path", spec.source.path, problem)
    times = times_in_zone(spec, start, end, every)
    refuse_passed_by(spec, times, every)
    by_output: dict[str, list[datetime]] = {}
    for time in times:
        by_output.setdefault(at_time(spec, time).sink.path, []).append(time)
    return [portion_of(spec, times) for times in by_output.values()]


def times_in_zone(
    spec: BatchInferenceSpec, start: datetime, end: datetime, every: str
) -> list[datetime]:
    """The scheduled times of a range, on the clock of the spec's timezone.

    Raises:
        InvalidSpec: as `times_between`, or no calendar has an end of it there.
    """
    shown, last = in_zone(spec, start), in_zone(spec, end)
    # As it is written: if the clock skips that hour, it does so on that day alone.
    first = shown if start.tzinfo else start.replace(tzinfo=shown.tzinfo)
    times = times_between(first, last, every)
    if start.tzinfo and start.utcoffset() == end.utcoffset():
        # Both ends are of one clock, and its days may be meant: where the zone's clock goes back in
        # between, the last of them begins there an hour after the end. Where it goes forward, that
        # clock knows of one day less than the zone's, whose own were meant: Prefect's form writes
        # all times in UTC.
        count = len(times_between(start, end, every))
        times += [shift(first, every, each) for each in range(len(times), count)]
    return times


def refuse_passed_by(spec: BatchInferenceSpec, times: list[datetime], every: str) -> None:
    """See that days that follow one another name days that do, also where clocks change.

    Raises:
        InvalidSpec: the offset's hours lead twice to one day, and past another.
    """
    if parse_step(every)[1] not in "dw":
        return
    for one, next_one in pairwise(times):
        found = day_between(spec, one, next_one, next_one.date() - one.date())
        if found and found[2] not in [at_time(spec, each).source.path for each in times]:
            before, after, _ = found
            problem = (
                f"leads to {before} and then to {after}, because clocks change there, and no run "
                "would take what lies between: write it in days, such as -1d, which follow the "
                "calendar, or leave it out if it stays within a day"
            )
            raise InvalidSpec.at("scheduled.offset", spec.scheduled.offset, problem)


def excluding_at(spec: BatchInferenceSpec, time: datetime) -> BatchInferenceSpec:
    """The spec, leaving out what it leaves out at a time."""
    exclude = [literal(each) for each in at_time(spec, time).source.exclude]
    return spec.with_part("source", exclude=exclude)


def needs_range(spec: BatchInferenceSpec) -> InvalidSpec:
    """Says that a spec with placeholders is nothing whole."""
    paths = [path for path in (*spec.source.paths, spec.sink.path) if is_timed(path)]
    problem = f"is a different place at each scheduled time: give the range with {START} and {END}"
    return InvalidSpec.at(
        "source.path" if paths[0] != spec.sink.path else "sink.path", paths[0], problem
    )


def times_between(start: datetime, end: datetime, every: str) -> list[datetime]:
    """The scheduled times of a range.

    Raises:
        InvalidSpec: `every` is no step forward, or the range is empty or too long.
    """
    try:
        forward = parse_step(every)[0] > 0
    except ValueError as error:
        raise InvalidSpec(f"{EVERY}: {error}") from error
    if not forward:
        raise InvalidSpec.at(EVERY, every, "must be a step forward, such as 1d, 6h or 30m")
    last = end.timestamp()  # of two times in one zone, Python compares what their clocks show
    if last < start.timestamp():
        raise InvalidSpec.at(END, end.isoformat(), f"is before {START} {start.isoformat()}")
    times: list[datetime] = []
    # Each from the start: from one to the next, an hour that a clock skips would stay skipped.
    with suppress(OverflowError):  # the calendar ends with the range
        while (time := shift(start, every, len(times))).timestamp() <= last:
            times.append(time)
            if len(times) > MAX_PERIODS:
                problem = (
                    f"divides the range into more than {MAX_PERIODS:,} periods: use a longer step"
                )
                raise InvalidSpec.at(EVERY, every, problem)
    return times


def portion_of(spec: BatchInferenceSpec, times: list[datetime]) -> Portion:
    """The run of the times that share an output.

    Raises:
        InvalidSpec: what is to be left out differs from time to time.
    """
    if len(times) == 1:
        return Portion(spec, tuple(times))
    if any(map(is_timed, spec.source.exclude)):
        problem = (
            "contains a time, but several periods go to one output and are read together: leave "
            "the placeholder out, or add one to sink.path too"
        )
        raise InvalidSpec.at("source.exclude", spec.source.exclude, problem)
    filled = [at_time(spec, time) for time in times]
    paths = list(dict.fromkeys(literal(path) for each in filled for path in each.source.paths))
    takes_one = type(spec.source).model_fields["path"].annotation is str
    if takes_one and len(paths) > 1:
        problem = "is a different table at each time, and one output has one source: add a "
        raise InvalidSpec.at(
            "source.path", spec.source.path, problem + "placeholder to sink.path too"
        )
    # A period without data is a gap, and the list of paths must not depend on who came first.
    path = paths[0] if takes_one else paths
    of_all = spec.with_part("source", path=path, on_empty="succeed")
    return Portion(of_all.with_part("sink", path=literal(filled[0].sink.path)), tuple(times))
