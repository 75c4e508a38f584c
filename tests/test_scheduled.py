"""The scheduled time in a spec, and ranges of it."""

from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from flows.batch_inference import carry_out
from flows.preview import preview
from tasks.calendar import shift
from tasks.errors import InvalidSpec
from tasks.periods import MAX_PERIODS, label, portions, times_between
from tasks.run_options import RunOptions
from tasks.scheduled import (
    at_time,
    in_zone,
    parse_time,
    shares_output,
    time_of_flow_run,
    time_used,
    timed_inputs,
)
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import parse_spec

DAILY = "/in/{scheduled:%Y-%m-%d}/"
TWO = datetime(2026, 3, 5, 2, tzinfo=UTC)
MONTHS = [f"{datetime(2026, month, 1):%b}" for month in range(1, 13)]


def spec(
    path: str | list[str] = DAILY,
    out: str = "/out",
    exclude: tuple[str, ...] = (),
    kind: str = "parquet",
    **more: Any,
) -> BatchInferenceSpec:
    return parse_spec(
        {
            "source": {"kind": kind, "path": path, **({"exclude": [*exclude]} if exclude else {})},
            "model": {"kind": "python", "class": "a:B"},
            "sink": {"kind": "parquet", "path": out},
            **more,
        }
    )


def scheduled(**fields: str) -> dict[str, Any]:
    return {"scheduled": fields}


def test_every_path_is_filled_in_with_the_same_time() -> None:
    given = spec(
        [DAILY, "/static"],
        "/out/{scheduled:%Y%m%d}",
        ("*/{scheduled:%d}/tmp*",),
        **scheduled(timezone="Asia/Tokyo", offset="-1d"),
    )
    late = datetime(2026, 3, 5, 20, tzinfo=UTC)  # the sixth in Tokyo
    filled = at_time(given, late)
    assert filled.source.path == ["/in/2026-03-05/", "/static"]
    assert filled.source.exclude == ["*/05/tmp*"]
    assert filled.sink.path == "/out/20260305"
    assert at_time(filled, TWO) == filled
    used = time_used(given, late)
    assert used
    assert used.isoformat() == "2026-03-06T05:00:00+09:00"


def test_a_spec_without_placeholders_is_left_alone() -> None:
    given = spec("/in/{a,b}/{{c}}")
    assert at_time(given, TWO) is given
    assert time_used(given, TWO) is None


def test_a_time_without_a_timezone_is_the_specs() -> None:
    berlin = spec(**scheduled(timezone="Europe/Berlin"))
    assert in_zone(berlin, datetime(2026, 7, 1, 2)).isoformat() == "2026-07-01T02:00:00+02:00"
    assert in_zone(berlin, TWO).isoformat() == "2026-03-05T03:00:00+01:00"
    # The clock skips this one.
    assert in_zone(berlin, datetime(2026, 3, 29, 2, 30)).isoformat() == "2026-03-29T03:30:00+02:00"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"path": "/in/{scheduled:%Q}"}, "source.path: '/in/{scheduled:%Q}' is not allowed"),
        ({"path": ["/a", "/in/{scheduled}"]}, "source.path: "),
        ({"exclude": ("{scheduled:x}",)}, "source.exclude: "),
        ({"out": "/out/{scheduled:%Y}/{model}"}, "sink.path: "),
        (scheduled(timezone="Berlin"), "scheduled.timezone: 'Berlin' is not a timezone"),
        (scheduled(offset="yesterday"), "scheduled.offset: 'yesterday' is not a step"),
    ],
)
def test_wrong_specs_name_the_field(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        spec(**wrong)
    assert str(refused.value).startswith(said)


def test_no_time_and_no_calendar_so_far_back() -> None:
    with pytest.raises(InvalidSpec, match="--scheduled-time: 'noon' is not a time"):
        parse_time("--scheduled-time", "noon")
    with pytest.raises(InvalidSpec, match=r"scheduled\.offset: '-9999w' from .* leads to a date"):
        at_time(spec(**scheduled(offset="-9999w")), datetime(2, 1, 1, tzinfo=UTC))


def test_the_calendar_has_an_end() -> None:
    west, last = datetime.fromisoformat("9999-12-31T23:59-05:00"), datetime(9999, 12, 31)
    with pytest.raises(InvalidSpec, match=r"is not in the calendar of scheduled\.timezone UTC"):
        at_time(spec(), west)
    assert len(portions(spec(), last.replace(day=30), last, "1d")[0].times) == 2


def test_a_flow_runs_time_is_its_parameters_else_its_schedules() -> None:
    run = SimpleNamespace(parameters={}, expected_start_time=TWO)
    assert time_of_flow_run(run) == TWO
    run.parameters = {"scheduled_time": "2026-01-01T00:00:00Z"}
    assert time_of_flow_run(run) == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_range_with_an_output_each_is_a_run_each() -> None:
    given = spec(out="/out/{scheduled:%Y-%m-%d}", **scheduled(offset="-1d"))
    found = portions(given, TWO, datetime(2026, 3, 7, 2, tzinfo=UTC), "1d")
    assert [each.name for each in found] == [f"2026-03-0{day}T02:00+00:00" for day in (5, 6, 7)]
    assert [each.spec.source.path for each in found] == [f"/in/2026-03-0{d}/" for d in (4, 5, 6)]
    assert all(each.written is given and each.scheduled_time == each.times[0] for each in found)


def test_a_range_with_one_output_is_one_run_of_all_paths() -> None:
    given = spec([DAILY, "/static/{{x}}{scheduled:%%%Y}"], "/out/{scheduled:%Y}")
    (found,) = portions(given, datetime(2026, 1, 1), datetime(2026, 1, 3), "1d")
    assert found.name == "2026-01-01..2026-01-03"
    assert found.scheduled_time is None
    days = [f"/in/2026-01-0{day}/" for day in (1, 2, 3)]
    assert found.spec.source.path == [days[0], "/static/{x}%2026", *days[1:]]
    assert found.spec.sink.path == "/out/2026"
    assert found.spec.source.on_empty == "succeed"


def test_times_that_share_an_output_are_read_together() -> None:
    given = spec("/in/{scheduled:%m-%dT%H}/", "/out/{scheduled:%m-%d}")
    found = portions(given, datetime(2026, 1, 1, 12), datetime(2026, 1, 2, 6), "6h")
    assert [len(each.times) for each in found] == [2, 2]
    assert found[1].spec.source.path == ["/in/01-02T00/", "/in/01-02T06/"]


BACK = datetime(2026, 10, 25, tzinfo=ZoneInfo("Europe/Berlin"))
"""The day on which clocks go back at 3:00."""


def test_a_range_ends_where_it_says_in_the_hour_that_comes_twice() -> None:
    first, second = (BACK.replace(hour=2, fold=fold) for fold in (0, 1))
    hours = [shift(BACK, "1h", each) for each in range(4)]
    assert times_between(BACK, first, "1h") == hours[:3]
    assert [time.fold for time in times_between(BACK, second, "1h")] == [0, 0, 0, 1]
    (only,) = times_between(second, second, "1d")
    assert only.isoformat() == second.isoformat()
    assert len(times_between(first.replace(minute=30), second.replace(minute=10), "10m")) == 5


@pytest.mark.parametrize(
    ("zone", "first", "last"),
    [
        ("Africa/Cairo", datetime(2026, 4, 24), datetime(2026, 4, 26)),
        ("Europe/Berlin", datetime(2026, 3, 29, 2), datetime(2026, 3, 31, 2)),
    ],
)
def test_a_range_may_begin_in_an_hour_that_the_clock_skips(
    zone: str, first: datetime, last: datetime
) -> None:
    given = spec("/in/{scheduled:%dT%H}/", "/out/{scheduled:%d}", **scheduled(timezone=zone))
    found = portions(given, first, last, "1d")
    hours = [first.hour + 1, first.hour, first.hour]
    wanted = [f"/in/{first.day + at}T{hour:02}/" for at, hour in enumerate(hours)]
    assert [each.spec.source.path for each in found] == wanted
    assert [each.times[0].hour for each in found] == hours
    (only,) = portions(given, first, first, "1d")
    assert only.times == found[0].times


@pytest.mark.parametrize(
    ("start", "end", "days"),
    [
        ("2026-10-20T00:00+00:00", "2026-10-31T00:00+00:00", 12),
        ("2026-10-20T00:00+02:00", "2026-10-31T00:00+01:00", 12),
        ("2026-10-20T12:00-05:00", "2026-10-31T11:59-05:00", 11),
        ("2026-03-25T00:00+00:00", "2026-03-31T00:00+00:00", 7),
        ("2026-03-25T00:00+01:00", "2026-03-31T00:00+02:00", 7),
        ("2026-03-25T00:00+01:00", "2026-03-30T23:59+02:00", 6),
        ("2026-03-24T23:00+00:00", "2026-03-30T22:00+00:00", 7),  # as Prefect's form writes them
    ],
)
def test_a_range_of_another_clock_has_that_clocks_days(start: str, end: str, days: int) -> None:
    """Also where the clocks of the spec's timezone change in between."""
    given = spec(DAILY, "/out/{scheduled:%Y-%m-%d}", **scheduled(timezone="Europe/Berlin"))
    ends = datetime.fromisoformat(start), datetime.fromisoformat(end)
    times = [time for each in portions(given, *ends, "1d") for time in each.times]
    assert len(times) == days
    assert len({(time.hour, time.minute) for time in times}) == 1
    assert len({time.date() for time in times}) == days


@pytest.mark.parametrize(
    ("hour", "offset", "path", "lost"),
    [
        (0, "-24h", DAILY, "2026-03-28 and then to 2026-03-30"),
        (23, "-1440m", DAILY, "2026-10-23 and then to 2026-10-25"),
        (5, "-6h", DAILY, "2026-10-23 and then to 2026-10-25"),
        (12, "-24h", DAILY, ""),
        (0, "-1d", DAILY, ""),
        (0, "-24h", "/in/{scheduled:%Y-%m}/", ""),
    ],
)
def test_an_offset_in_hours_passes_no_day_by(hour: int, offset: str, path: str, lost: str) -> None:
    given = spec(path, **scheduled(timezone="Europe/Berlin", offset=offset))
    ends = datetime(2026, 3, 1, hour, 30), datetime(2026, 11, 1, hour, 30)
    if not lost:
        assert len(portions(given, *ends, "1d")[0].times) == 246
        return
    with pytest.raises(InvalidSpec, match=f"scheduled.offset: '{offset}' leads to {lost}.* in day"):
        portions(given, *ends, "1d")
    assert len(portions(given, *ends, "6h")[0].times) > 246 * 3, "of days there are several times"


@pytest.mark.parametrize("kind", ["delta", "lance"])
def test_tables_of_several_times_need_an_output_each(kind: str) -> None:
    given = spec("/in/{scheduled:%Y-%m}", "/out/{scheduled:%Y}", kind=kind)
    (found,) = portions(given, datetime(2026, 1, 1), datetime(2026, 1, 3), "1d")
    assert found.spec.source.path == "/in/2026-01"
    with pytest.raises(InvalidSpec, match=r"source\.path: .*a different table.* to sink\.path too"):
        portions(given, datetime(2026, 1, 1), datetime(2026, 2, 3), "1d")


def test_a_step_keeps_the_clock_through_a_change() -> None:
    given = spec(**scheduled(timezone="Europe/Berlin"))
    (found,) = portions(given, datetime(2026, 3, 28, 2, 30), datetime(2026, 3, 31, 2, 30), "1d")
    clocks = [f"{time:%d %H:%M}" for time in found.times]
    assert clocks == ["28 02:30", "29 03:30", "30 02:30", "31 02:30"]
    assert label(found.times[0]) == "2026-03-28T02:30+01:00"


@pytest.mark.parametrize(
    ("given", "between", "every", "said"),
    [
        (
            spec(),
            (None, None),
            "1d",
            r"source\.path: .* give the range with --from \(start\) and --to \(end\)",
        ),
        (
            spec("/in", "/out/{scheduled:%d}"),
            (None, None),
            "1d",
            r"sink\.path: .* --from \(start\) and --to \(end\)",
        ),
        (spec(), (TWO, None), "1d", r"--from \(start\): .* needs --to \(end\) too"),
        (spec("/in"), (TWO, TWO), "1d", r"source\.path: '/in' has no"),
        (spec(), (TWO, TWO), "0d", "--every: '0d' must be a step forward"),
        (spec(), (TWO, TWO), "daily", "--every: 'daily' is not a step"),
        (spec(), (TWO, datetime(2020, 1, 1)), "1d", r"--to \(end\): .* is before --from \(start\)"),
        (spec(), (TWO, datetime(2030, 1, 1)), "1m", f"more than {MAX_PERIODS:,} periods"),
        (
            spec(exclude=("{scheduled:%d}*",)),
            (TWO, datetime(2026, 3, 9)),
            "1d",
            r"source\.exclude: .* contains a time",
        ),
    ],
)
def test_wrong_ranges(
    given: BatchInferenceSpec, between: tuple[Any, Any], every: str, said: str
) -> None:
    with pytest.raises(InvalidSpec, match=said):
        portions(given, *between, every)


@pytest.mark.parametrize(
    ("source", "sink", "is_shared"),
    [
        (DAILY, "/out", True),
        (DAILY, "/out/{scheduled:%Y-%m}", True),
        (DAILY, "/out/{scheduled:%Y-%m-%d}", False),
        (DAILY, "/out/{scheduled:%Y-%m-%dT%H}", False),
        ("/in/{scheduled:%Y-%m-%d}/{scheduled:%p}*", "/out/{scheduled:%Y-%m-%d}", True),
        ("/in/{scheduled:%Y-%m}", "/out/{scheduled:%Y}", True),
        ("/in/{scheduled:%Y}", "/out", True),
        ("/in/{scheduled:%Y}", "/out/{scheduled:%Y}", False),
        ("/in", "/out/{scheduled:%Y-%m-%d}", False),
        ("/in", "/out", False),
    ],
)
@pytest.mark.parametrize("month", [1, 6, 12])
def test_whether_times_share_an_output(source: str, sink: str, is_shared: bool, month: int) -> None:
    """At the edges of days, months and years, too."""
    for day in (1, 15, 30):
        for hour in (0, 11, 23):
            time = datetime(2026, month, day, hour, 59, tzinfo=UTC)
            assert shares_output(spec(source, sink), time) == is_shared


@pytest.mark.parametrize(
    ("path", "globs"),
    [
        (DAILY, ["/in/" + "-".join(["[0-9]" * each for each in (4, 2, 2)]) + "/"]),
        ("/in/{{x}}/{scheduled:%Y}/{scheduled:%-d}.*", ["/in/{x}/[0-9][0-9][0-9][0-9]/[0-9]*.*"]),
        ("/in/{scheduled:%Y}/{scheduled:%b}", [f"/in/{'[0-9]' * 4}/{each}" for each in MONTHS]),
        ("/in/{scheduled:%d-%p%z}", [f"/in/[0-9][0-9]-{m}M[+-]{'[0-9]' * 4}" for m in "AP"]),
        (["/in/all", "/in/{scheduled:%H}"], ["/in/[0-9][0-9]"]),
    ],
)
def test_globs_name_the_inputs_of_all_times(path: str | list[str], globs: list[str]) -> None:
    assert list(timed_inputs(spec(path))) == globs


@pytest.mark.parametrize(
    "path", ["%A, %-d. %B %Y", "%a %b %p %I", "%Z%H%z", "%d.%m.%y%%", "%G-W%V"]
)
def test_some_glob_matches_whatever_the_time_is(path: str) -> None:
    written = spec(f"/in/{{scheduled:{path}}}", **scheduled(timezone="Europe/Berlin"))
    globs = timed_inputs(written)
    for hours in range(0, 366 * 24, 31):
        found = at_time(written, datetime(2027, 1, 1, tzinfo=UTC) + timedelta(hours=hours))
        assert any(fnmatchcase(str(found.source.path), glob) for glob in globs)


def test_a_run_knows_of_the_inputs_of_other_times(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[RunOptions] = []

    def plan(written: BatchInferenceSpec, filled: BatchInferenceSpec, options: RunOptions) -> None:
        planned.append(options)
        raise NotPlannedError

    monkeypatch.setattr("flows.batch_inference.plan_after_unfinished", plan)
    with pytest.raises(NotPlannedError):
        carry_out(spec(), RunOptions(scheduled_time=TWO))
    assert planned[0].timed_inputs == timed_inputs(spec())


def test_a_preview_knows_of_the_inputs_of_other_times(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[RunOptions] = []

    def plan(trial: BatchInferenceSpec, options: RunOptions) -> None:
        planned.append(options)
        raise NotPlannedError

    monkeypatch.setattr("flows.preview.plan_run", plan)
    with pytest.raises(NotPlannedError):
        preview.fn(spec(), scheduled_time=TWO, on_cluster=True)
    assert planned[0].timed_inputs == timed_inputs(spec())


class NotPlannedError(Exception):
    """Raised in place of planning."""
