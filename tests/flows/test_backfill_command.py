"""The command line with scheduled times: by hand, and a backfill that is killed and goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.command_spec import spec_for_run
from tests.flows.conftest import CODE
from tests.flows.daily import DAY, daily_spec, ids_in, put
from tests.flows.jobs_cluster import await_that
from tests.flows.test_cli import call

DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
IN = {"kind": "parquet", "path": f"in/{DAY}"}


def write_spec(folder: Path, **changes: Any) -> str:
    """Paths relative to the file; each input's ten rows make five records, 0.3 s each."""
    for day in DAYS:
        put(folder, day)
    spec = {
        "name": "daily",
        "source": IN,
        "model": {"kind": "python", "class": "predictors:Double", "init": {"seconds": 0.3}},
        "sink": {"kind": "parquet", "path": f"out/{DAY}"},
        "cluster": {"kind": "inline"},
        "stages": {"read": {"rows_per_batch": 2}},
        "environment": {"working_dir": str(CODE)},
        "scheduled": {"timezone": "Europe/Berlin", "offset": "-1d"},
    }
    file = folder / "spec.yaml"
    file.write_text(yaml.safe_dump({**spec, **changes}))
    return str(file)


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_every_verb_takes_the_scheduled_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write_spec(tmp_path)
    at = ("--scheduled-time", "2026-01-03T02:00")
    assert call(monkeypatch, "check", spec, *at) == 0
    assert "1 to do, 0 published already" in capsys.readouterr().out
    assert call(monkeypatch, "run", spec, *at, "--json") == 0
    said = capsys.readouterr()
    report = json.loads(said.out.splitlines()[-1])
    assert report["scheduled_time"] == "2026-01-03T02:00:00+01:00"
    assert "skipped      0 inputs, published before" in said.err
    assert "scheduled    2026-01-03T02:00:00+01:00" in said.err
    assert report["output"] == str(tmp_path / "out" / DAYS[1])
    assert call(monkeypatch, "status", spec, *at, "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 10
    assert call(monkeypatch, "status", spec, "--scheduled-time", "2026-01-02", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 0
    assert call(monkeypatch, "cancel", spec, *at) == 0
    assert "no job is at work on " in capsys.readouterr().out
    # Today there is nothing.
    assert call(monkeypatch, "run", spec) == 2
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["check", "status"])
def test_a_time_that_no_path_has_a_place_for_is_warned_of(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = ("--set", f"source.path=in/{DAYS[1]}", "--set", "sink.path=out")
    at = ("--scheduled-time", "2026-01-03T02:00")
    warning = (
        "warning: --scheduled-time 2026-01-03T02:00 has no effect: no path of the spec contains"
    )
    spec = write_spec(tmp_path)
    for given, is_warned in (((*plain, *at), True), (plain, False), (at, False)):
        assert call(monkeypatch, verb, spec, *given) == 0
        said = capsys.readouterr().err
        assert (warning in said) == is_warned
        assert ("warning: scheduled.offset -1d has no effect: " in said) == (given[:1] != at[:1])


def test_a_run_is_warned_of_it_before_it_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = [f"source.path=in/{DAYS[1]}", "sink.path=out"]
    spec, at = Path(write_spec(tmp_path)), "2026-01-03T02:00"
    found, time = spec_for_run(spec, plain, None, None, None, at)
    assert (found.sink.path, time.isoformat()) == (str(tmp_path / "out"), f"{at}:00")
    assert f"--scheduled-time {at} has no effect" in capsys.readouterr().err
    spec_for_run(spec, None, None, None, None, at)
    assert capsys.readouterr().err == ""


def test_a_search_takes_the_scheduled_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = str(tmp_path / "out/{scheduled:%Y-%m-%d}")
    asked = ("search", output, "--spec", write_spec(tmp_path), "--query", "[1]")
    assert call(monkeypatch, *asked, "--scheduled-time", "2026-01-03T02:00") == 2
    assert f"output: '{tmp_path}/out/{DAYS[1]}' has no published rows" in capsys.readouterr().err


WRONG = {
    "no time": (
        ("run", "SPEC", "--scheduled-time", "today"),
        "--scheduled-time: 'today' is not a time",
    ),
    "no range": (("backfill", "SPEC"), "give the range with --from (start) and --to (end)"),
    "half a range": (("backfill", "SPEC", "--from", "2026-01-01"), "--from (start): "),
    "an empty range": (
        ("backfill", "SPEC", "--set", "source.path=in", "--set", "sink.path=out", "--from", ""),
        "--from: '' is not a time",
    ),
    "no step": (
        ("backfill", "SPEC", "--from", "2026-01-01", "--to", "2026-01-02", "--every", "day"),
        "--every: 'day' is not a step of time",
    ),
    "a step of no range": (
        (
            *("backfill", "SPEC", "--set", "source.path=in", "--set", "sink.path=out"),
            *("--every", "6h"),
        ),
        "--every: '6h' has no effect without a range: give --from (start) and --to (end)",
    ),
    "no timezone": (
        ("check", "SPEC", "--set", "scheduled.timezone=Berlin"),
        "scheduled.timezone: 'Berlin' is not a timezone",
    ),
    "no placeholder": (
        ("check", "SPEC", "--set", "sink.path='out/{scheduled}'"),
        "sink.path: ",
    ),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG.keys())
def test_wrong_calls_start_nothing(
    tmp_path: Path,
    arguments: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = write_spec(tmp_path)
    given = [spec if each == "SPEC" else each for each in arguments]
    assert call(monkeypatch, *given) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.prefect
@pytest.mark.chaos
@pytest.mark.usefixtures("prefect_server")
def test_a_killed_backfill_skips_what_is_done_and_resumes_the_day_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from prefect.settings import PREFECT_API_URL

    goes_on = tmp_path / "goes_on"
    model = {"kind": "python", "class": "predictors:Double", "init": {"file": str(goes_on)}}
    spec = write_spec(tmp_path, model=model)
    goes_on.touch()
    assert call(monkeypatch, "run", spec, "--scheduled-time", "2026-01-02") == 0
    goes_on.unlink()
    capsys.readouterr()
    arguments = ["backfill", spec, "--from", "2026-01-02", "--to", "2026-01-04", "--json"]
    environment = {**os.environ, "PREFECT_API_URL": PREFECT_API_URL.value() or ""}
    script = str(Path(sys.executable).with_name("batch-inference"))
    command = [sys.executable, script, *arguments]
    killed = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    records = f"out/{DAYS[1]}.state/runs/*/records/*.json"
    try:
        await_that(
            lambda: len([*tmp_path.glob(records)]) >= 2 or killed.poll() is not None,
            "the second day was not begun",
        )
        assert killed.poll() is None
    finally:
        killed.kill()
        killed.wait()
    goes_on.touch()
    assert (tmp_path / "out" / DAYS[0]).exists()
    assert not (tmp_path / "out" / DAYS[1]).exists()
    assert call(monkeypatch, *arguments) == 0
    said = capsys.readouterr()
    first, second, third = json.loads(said.out.splitlines()[-1])["periods"]
    assert (first["what"], first["inputs_skipped"]) == ("up to date", 1)
    assert second["what"] == "published"
    assert second["resumed_rows"] >= 4
    assert (third["what"], third["resumed_rows"]) == ("published", 0)
    assert "published, 10 rows written" in said.err
    for day in DAYS:
        first_id = int(day[-2:]) * 100
        rows = ids_in(daily_spec(tmp_path), tmp_path / "out" / day)
        assert rows == list(range(first_id, first_id + 10))
