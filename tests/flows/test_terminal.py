"""Bars in a terminal, lines elsewhere, both from the progress that the job leaves."""

import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
import yaml
from rich.console import Console

from flows import terminal
from flows.batch_inference import batch_inference
from flows.console import console as ours
from flows.console import say
from flows.log_at_terminal import log_at_terminal
from flows.printed_report import print_check, print_periods
from flows.printing import preview_lines, print_matches, print_preview, print_table, table_of
from tasks.errors import Unreachable
from tasks.job_look import Look
from tasks.plan import make_plan
from tasks.ray_job.counts import STAGES
from tasks.run import left_to_do, next_attempt
from tests.flows.conftest import spec_of
from tests.flows.jobs_cluster import await_that
from tests.flows.test_attempts import dies_once


def follow_a_job(numbers: Path, console: Console, is_enough: Callable[[], bool]) -> None:
    """Run a real job, which is slow until enough is to be seen of it, and show it."""
    enough = numbers.parent / "enough"
    init = {"seconds": 0.2, "file": str(enough)}
    model = {"kind": "python", "class": "predictors:SlowUntil", "init": init}
    stages = {"read": {"rows_per_batch": 10}}
    planned = make_plan(spec_of(numbers, model=model, stages=stages))
    attempt = next_attempt(planned, left_to_do(planned, tried=False))
    attempt.ensure_started()
    with terminal.live_progress(console):
        while attempt.look().result is None:
            if is_enough():
                enough.touch()
            time.sleep(0.1)


def test_bars_in_a_terminal(numbers: Path) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    follow_a_job(numbers, console, lambda: "s left" in screen.getvalue())
    text = screen.getvalue()
    for stage in ("read", "preprocess", "infer", "write"):
        assert stage in text
    assert "s left" in text, "shows the time that is left while the job runs"
    assert text.count("1,000 rows") >= 3, "ends with all rows through"


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_what_a_flow_says_is_seen_and_the_rest_is_prefects(numbers: Path) -> None:
    """Why an attempt failed, but not where the next one runs; and nothing after the block."""
    screen = io.StringIO()
    spec = spec_of(numbers, model=dies_once(numbers), retries={"max_attempts": 2})
    with log_at_terminal(Console(file=screen, width=120)):
        batch_inference(spec)
    said = screen.getvalue().splitlines()
    batch_inference(spec)
    assert screen.getvalue().splitlines() == said
    assert said[0] == "inputs: 10 to do, 0 published already"
    failed = "attempt 1 failed, another follows: stage infer failed at "
    assert [line for line in said if line.startswith(failed)]
    assert not [line for line in said if "attempt 1 runs" in line or "Finished in state" in line]


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("place", ["a pipe that nobody reads", "a full disk"])
def test_a_run_does_without_a_terminal(numbers: Path, place: str) -> None:
    """It is published, and says so on its standard output."""
    from prefect.settings import PREFECT_API_URL

    spec = spec_of(numbers, model=dies_once(numbers), retries={"max_attempts": 2})
    file = numbers.parent / "spec.yaml"
    file.write_text(yaml.safe_dump(spec.model_dump(mode="json", by_alias=True)))
    command = [str(Path(sys.executable).with_name("batch-inference")), "run", str(file), "--json"]
    environment = {**os.environ, "PREFECT_API_URL": str(PREFECT_API_URL.value())}
    with unwritable(place) as errors:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, env=environment)
    report = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, report["published"], report["attempts"]) == (0, True, 2)


@pytest.mark.parametrize("place", ["a pipe that nobody reads", "a full disk"])
def test_what_was_done_is_done_where_no_program_can_be_told(numbers: Path, place: str) -> None:
    """The exit code is that of what was done, and a person is told in a line."""
    with unwritable(place) as out:
        done = status_of(numbers, "spec.yaml", stdout=out, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()[-1:]
    assert line.startswith("the results are lost: standard output: ")


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("a pipe that nobody reads", ""),  # as `| head` leaves it
        ("a full disk", "the results are lost: standard output: No space left on device\n"),
    ],
)
def test_what_was_done_is_done_where_nobody_can_be_told(
    numbers: Path, place: str, said: str
) -> None:
    with unwritable(place) as out:
        done = status_of(numbers, "spec.yaml", "", stdout=out, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, said)


def test_what_was_asked_for_goes_to_standard_output(numbers: Path) -> None:
    """Where a program is told something, a person is told on standard error."""
    told = status_of(numbers, "spec.yaml", "", capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "")
    assert re.search(r"^rows +0$", told.stdout, re.MULTILINE)
    beside = status_of(numbers, "spec.yaml", capture_output=True, text=True)
    assert json.loads(beside.stdout)["rows"] == 0
    closed = status_of(numbers, "spec.yaml", "--json 2>&-", capture_output=True, text=True)
    assert closed.stdout == beside.stdout


def test_a_path_that_standard_output_cannot_show_is_shown_escaped(numbers: Path) -> None:
    """As standard error has it; else a run that has published would end on its report."""
    options = f"--set sink.path={numbers.parent}/\N{GREEK SMALL LETTER OMEGA}"
    command = {"capture_output": True, "env": {**buffered(), "PYTHONIOENCODING": "iso-8859-1"}}
    told = status_of(numbers, "spec.yaml", options, **command)
    assert (told.returncode, told.stderr) == (0, b"")
    assert rb"/\u03c9" in told.stdout


def test_a_row_is_one_line_where_nobody_reads_it_on_a_screen() -> None:
    """For `grep`; a terminal breaks what is longer than it is wide."""
    found = {"column": "embedding", "query_as": "text", "files_changed_by_others": 0}
    found |= {"rows": {"searched": 1, "without_vector": 0}, "seconds": {}}
    matches = [{"rank": 1, "score": 1.0, "row": {"path": "x" * 70, "other": "y" * 70}}]
    screen = io.StringIO()
    print_matches(Console(file=screen, width=80), {**found, "matches": matches})
    assert re.search(r"x{70}.*y{70}", screen.getvalue())


def test_what_is_wrong_is_told_a_program_on_standard_output(numbers: Path) -> None:
    done = status_of(numbers, "gone.yaml", capture_output=True, text=True)
    assert json.loads(done.stdout)["error_class"] == "InvalidSpec"
    assert done.stderr.startswith("InvalidSpec: SPEC: 'gone.yaml' cannot be read")


def test_what_is_wrong_has_its_exit_code_where_nobody_can_be_told(numbers: Path) -> None:
    with unwritable("a full disk") as out:
        assert status_of(numbers, "gone.yaml", stdout=out, stderr=out).returncode == 2


PRINTS = """
import ctypes, os
from flows.console import kept_for_programs, print_json
with kept_for_programs():
    ctypes.CDLL(None).printf(b"from C")
    os.system("echo from another process")
    print_json({"state": "done"})
"""


def test_what_no_python_prints_is_no_part_of_what_programs_read() -> None:
    """C may keep it until the process ends, by which time the report is there."""
    command = [sys.executable, "-c", PRINTS]
    done = subprocess.run(command, env=buffered(), capture_output=True, check=True)
    assert done.stdout == b'{"state": "done"}\n'
    assert done.stderr == b"from another process\nfrom C"


def test_what_a_command_opens_does_not_take_the_place_of_a_stream_that_is_closed() -> None:
    """Else Prefect's own server would be handed its standard input for its socket."""
    code = (
        "from flows import console as c; c.take_closed_streams(); print(open('/dev/zero').fileno())"
    )
    command = ["sh", "-c", 'exec "$0" -c "$1" <&- 2>&-', sys.executable, code]
    assert int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout) > 2


@contextmanager
def unwritable(place: str) -> Iterator[IO[bytes]]:
    """A file that takes nothing."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe, Path("/dev/full").open("wb") as full:
        yield full if place == "a full disk" else pipe


def status_of(
    numbers: Path, file: str, options: str = "--json", **streams: Any
) -> "subprocess.CompletedProcess[Any]":
    """The status of a spec, asked for in a process of its own."""
    fields = spec_of(numbers).model_dump(mode="json", by_alias=True)
    (numbers.parent / "spec.yaml").write_text(yaml.safe_dump(fields))
    command = f"{Path(sys.executable).with_name('batch-inference')} status {file} {options}"
    given: dict[str, Any] = {"env": buffered(), "cwd": numbers.parent} | streams
    return subprocess.run(command, shell=True, **given)


def buffered() -> dict[str, str]:
    """An environment in which a process has something left to write at its end."""
    return {name: each for name, each in os.environ.items() if name != "PYTHONUNBUFFERED"}


def of_read(lines: list[str]) -> set[str]:
    """Different lines that tell of a job from its first stage on."""
    return {line for line in lines if line.startswith("read: ")}


def test_lines_elsewhere(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "LINE_EVERY_SECONDS", (0.3, 0.3))
    told = lines_said(monkeypatch)
    console = Console(file=io.StringIO(), force_terminal=False)
    follow_a_job(numbers, console, lambda: len(of_read(told)) >= 3)
    lines = of_read(capsys.readouterr().err.splitlines())
    assert len(lines) >= 3, "the counts move"
    assert all("| infer: " in line for line in lines)


def at_work() -> dict[str, Any]:
    """What a job says while all of its stages work."""
    counts = {"state": "running", "rows": 7, "rejected": 0, "total": 9, "started": 1, "updated": 2}
    said = {"state": "running", "works_at": "infer", "waits_for": None, "at": 2}
    return {**said, "stages": dict.fromkeys(STAGES, counts)}


def lines_said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Gets the lines that are said from here on, once they are."""
    said = list[str]()

    def say_and_note(line: str) -> None:
        say(line)
        said.append(line)

    monkeypatch.setattr(terminal, "say", say_and_note)
    return said


def test_what_a_job_waits_for_before_it_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = {"state": "waiting", "rows": 0, "total": None, "started": None}
    said = {"state": "queued", "waits_for": "nodes, 60 s at most: [a GPU]"}
    look = Look({**said, "stages": dict.fromkeys(STAGES, counts)})
    job = SimpleNamespace(stages=STAGES)
    followed = SimpleNamespace(job=job, last=look, look=lambda: look)
    monkeypatch.setattr(terminal, "FOLLOWED", [followed])
    monkeypatch.setattr(terminal, "LINE_EVERY_SECONDS", (0.05, 0.05))
    screen, told = io.StringIO(), lines_said(monkeypatch)
    with terminal.live_progress(Console(file=screen, force_terminal=True, width=120)):
        pass
    with terminal.live_progress(Console(file=screen)):
        await_that(lambda: bool(told), "no line is said")
    assert "waits for nodes, 60 s at most: [a GPU]" in screen.getvalue()
    lines = set(capsys.readouterr().err.splitlines())
    assert lines == {"the job waits for nodes, 60 s at most: [a GPU]"}


def test_what_comes_from_data_stands_as_it_is_and_does_nothing() -> None:
    rows = {"searched": 1, "without_vector": 0}
    found = {"query_as": "text", "rows": rows, "seconds": {}, "files_changed_by_others": 2}
    row = {"path": "/run:id:7/a.png", "text": "\x1b[2J\x9b31m[bold]\r"}
    with ours.capture() as taken:
        print_matches(ours, {**found, "matches": [{"rank": 1, "score": 1.0, "row": row}]})
        print_check(ours, "places", "red", "wrong", f"{row['path']} {row['text']}")
    assert "2 files of this output are no longer in the table" in " ".join(taken.get().split())
    lines = [line for line in taken.get().splitlines() if row["path"] in line]
    assert [r"\x1b[2J\x9b31m[bold]\x0d" in line for line in lines] == [True, True]


def test_a_storage_that_is_away_ends_no_display(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run may wait for it, and go on."""
    look = Look(at_work())

    def ask() -> Look:
        raise Unreachable("sink.path: the storage does not answer")

    followed = SimpleNamespace(job=SimpleNamespace(stages=STAGES), last=look, look=ask)
    monkeypatch.setattr(terminal, "FOLLOWED", [followed])
    monkeypatch.setattr(terminal, "LINE_EVERY_SECONDS", (0.05, 0.05))
    told = lines_said(monkeypatch)
    with terminal.live_progress(Console(file=io.StringIO())):
        await_that(lambda: len(told) > 1, "no second line is said")
    assert capsys.readouterr().err.count("read: 7 rows") > 1


def test_a_long_period_stands_apart_from_what_was_done() -> None:
    period = "2026-01-01T02:00+01:00..2026-01-01T20:00+01:00"
    screen = io.StringIO()
    done = {"period": period, "told": "no data", "output": "/out"}
    print_periods(Console(file=screen), {"periods": [done]})
    assert screen.getvalue() == f"{period} no data: /out\n"


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is at work, looked at often."""
    look = Look(at_work())
    attempt = SimpleNamespace(job=SimpleNamespace(stages=STAGES), last=look, look=lambda: look)
    monkeypatch.setattr(terminal, "FOLLOWED", [attempt])
    monkeypatch.setattr(terminal, "LINE_EVERY_SECONDS", (0.05, 0.05))


@pytest.mark.usefixtures("followed")
def test_no_bars_are_drawn_where_nothing_can_be_drawn_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a log that colours are forced upon, and in terminals that know no cursor."""
    screen = io.StringIO()
    log = Console(file=screen, force_terminal=True, force_interactive=False)
    dumb = Console(file=screen, force_terminal=True, _environ={"TERM": "dumb"})
    told = lines_said(monkeypatch)
    for console in (log, dumb):
        told.clear()
        with terminal.live_progress(console):
            await_that(lambda: len(told) > 1, "no second line is said")
        assert capsys.readouterr().err.count("read: 7 rows") > 1
    assert screen.getvalue() == ""


def test_colours_that_are_forced_make_no_terminal_of_a_file() -> None:
    code = "from flows.console import console; print(console.is_terminal, console.is_interactive)"
    environment = {**os.environ, "FORCE_COLOR": "1"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert found.stdout.split() == [b"True", b"False"]


@pytest.mark.usefixtures("followed")
def test_lines_come_more_seldom_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "LINE_EVERY_SECONDS", (3600.0, 0.05))
    monkeypatch.setattr(terminal, "AT_FIRST_SECONDS", 0.0)
    told = lines_said(monkeypatch)
    with terminal.live_progress(Console(file=io.StringIO())):
        await_that(lambda: bool(told), "no line is said")


@pytest.mark.usefixtures("followed")
def test_a_closed_standard_error_puts_no_line_among_what_programs_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", None)
        told = lines_said(patch)
        with terminal.live_progress(Console(file=io.StringIO())):
            await_that(lambda: bool(told), "no line is said")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("written", "more"), [(2, []), (1_002, ["and 1,000 more"])])
def test_a_preview_says_how_many_rows_it_does_not_show(written: int, more: list[str]) -> None:
    rows = {"read": 2, "written": written, "rejected": 0, "filtered": 0}
    found = {"rows": rows, "source": {"inputs": 1, "rows": None}, "rows_per_second": {}}
    found |= {"sample": [{"x": "1"}] * 2, "set_aside": [], "estimate": None, "measured": "here"}
    found |= {"small_files": None, "columns_not_shown": ["y", "[z]"]}
    file = io.StringIO()
    print_preview(Console(file=file), {**found, "would_be_held_back": []})
    assert [line for line in file.getvalue().splitlines() if "more" in line] == more
    assert "columns not shown: y, [z]\n" in file.getvalue()


def test_rows_of_many_columns_stand_side_by_side_in_a_terminal() -> None:
    """Below each other, each column is a letter wide."""
    rows = [{f"score{at:02}": f"{row}.{at:02}" for at in range(20)} for row in range(2)]
    for is_terminal, said in ((True, "score19 0.19 1.19"), (False, "0.18 0.19")):
        screen = io.StringIO()
        console = Console(file=screen, force_terminal=is_terminal, width=60, color_system=None)
        print_table(console, table_of(rows, narrow=console.is_terminal))
        words = [" ".join(re.findall(r"[\w.]+", line)) for line in screen.getvalue().splitlines()]
        assert [line for line in words if line.endswith(said)], words


def test_the_rows_of_a_preview_add_up() -> None:
    rows = {"read": 64, "written": 20, "rejected": 4, "filtered": 40}
    source = {"inputs": 1, "rows": 64, "rows_are_known": True}
    found = {"rows": rows, "source": source, "rows_per_second": {}, "estimate": None}
    found["small_files"] = None
    said = preview_lines({**found, "measured": "here", "would_be_held_back": []})["rows"]
    assert said == "64 read, 20 predicted, 4 set aside, 40 filtered; nothing is published"


def test_the_estimate_of_a_preview_says_what_it_is_by() -> None:
    rows = {"read": 2, "written": 2, "rejected": 0, "filtered": 0}
    found = {"rows": rows, "source": {"inputs": 1, "rows": None}, "rows_per_second": {}}
    estimate: dict[str, Any] = {"seconds": 19.0, "seconds_range": (9.3, 28.7)}
    estimate |= {"is_total": True, "stage": "infer"}
    estimate |= {"cost": None, "more_rows": None}
    found |= {"estimate": estimate, "measured": "here", "would_be_held_back": []}
    found["small_files"] = None
    assert preview_lines(found)["estimate"] == (
        "all rows take 19.0 seconds (9.3 seconds to 28.7 seconds), without start-up; infer "
        "limits it; from small batches, usually slower than a run's"
    )
    estimate |= {"cost": 3.5, "cost_range": (3.0, 4.0), "more_rows": 5600}
    lines = preview_lines({**found, "estimate": estimate})
    assert lines["estimate"] == (
        "all rows take less than 19.0 seconds, without start-up; infer limits it; most of that may "
        "be what a small batch takes by itself: a preview of 5600 rows (--rows) tells more"
    )
    assert lines["cost"] == "less than 3.50"
