"""Prefect's own server, which a run starts where nobody has named one."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from shutil import copyfile
from typing import Any, BinaryIO
from urllib.request import getproxies_environment, proxy_bypass

import psutil
import pytest
import yaml
from prefect.settings import (
    PREFECT_API_DATABASE_CONNECTION_URL,
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    PREFECT_HOME,
    PREFECT_SERVER_EPHEMERAL_ENABLED,
    temporary_settings,
)

from flows import own_server
from tasks.errors import InvalidSpec, Unreachable
from tests.flows.conftest import numbers as numbers  # a fixture
from tests.flows.conftest import spec_of
from tests.flows.jobs_cluster import await_that
from tests.web_server import web_server

SLOW = {"kind": "python", "class": "predictors:Double", "init": {"seconds": 2.0}}
INTERRUPTED = 130
END_SECONDS = 60.0
"""Without its server a flow tries for two and a half minutes to say how it ended."""
HEED_CTRL_C = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Also where a shell has started the tests in the background, which it has ignore it."""


@pytest.mark.prefect
@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_what_tells_all_processes_of_a_run_to_end_ends_it(
    numbers: Path, home: Path, told: signal.Signals
) -> None:
    """Ctrl-C at a terminal, to which the server is deaf; `timeout` and systemd, which it hears."""
    with at_a_terminal(numbers, home) as run:
        folder = numbers.parent / "out.state"
        await_that(lambda: any(folder.glob("runs/*/attempts/*/progress.json")), "no job has begun")
        (server,) = (
            each
            for each in psutil.Process(run.pid).children()
            if "flows.prefect_server" in each.cmdline()
        )
        database = server.environ()["PREFECT_SERVER_DATABASE_CONNECTION_URL"]
        assert database.endswith("?plugin=writers_in_turn")
        os.killpg(run.pid, told)
        ended = await_that(lambda: run.poll() is not None, "the run does not end")
        assert run.stderr
        said = run.stderr.read()
    assert ended < END_SECONDS
    assert run.returncode == INTERRUPTED
    assert "stopped; the next run continues from what is recorded\n" in said
    assert "Traceback" not in said
    assert not server.is_running()
    (page,) = folder.glob("runs/*/report.md")
    words = page.read_text()
    assert "RunStopped" in words
    assert "stopped by hand" in words
    assert "What the next run resumes" in words


@pytest.mark.prefect
def test_it_takes_specs_of_any_length(numbers: Path, home: Path) -> None:
    """Prefect's servers take half a MiB, where nobody has told them otherwise."""
    deep = numbers.joinpath(*["deep" * 60] * 15)
    deep.mkdir(parents=True)
    path = (numbers / "0.parquet").rename(deep / "0.parquet")
    source = {"kind": "parquet", "path": [str(path)] * 160}
    spec = spec_of(numbers, source=source).model_dump(mode="json", by_alias=True)
    file = numbers.parent / "spec.yaml"
    file.write_text(yaml.safe_dump(spec))
    assert file.stat().st_size > 1 << 19
    command = [str(Path(sys.executable).with_name("batch-inference")), "run", str(file)]
    subprocess.run(command, env=only_with(home), check=True, timeout=240)
    with closing(sqlite3.connect(home / "prefect.db")) as database:
        ended = database.execute(
            "SELECT name, state_type FROM task_run WHERE flow_run_id = "
            "(SELECT id FROM flow_run ORDER BY created DESC LIMIT 1)"
        ).fetchall()
    assert {name for name, _ in ended} >= {"read", "preprocess", "infer", "write"}
    assert {state for _, state in ended} == {"COMPLETED"}, "what it had yet to write is lost"


def test_who_presses_ctrl_c_once_more_does_not_wait_for_its_end() -> None:
    """At the end of the process, where Python would show a traceback."""
    deaf = subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE)
    is_waited_for, wait = threading.Event(), deaf.wait

    def wait_and_tell(timeout: float | None = None) -> int:
        is_waited_for.set()
        return wait(timeout)

    def press() -> None:
        is_waited_for.wait()
        signal.raise_signal(signal.SIGINT)

    deaf.wait = wait_and_tell  # type: ignore[method-assign]
    threading.Thread(target=press).start()
    own_server.end(deaf)
    assert deaf.returncode == -signal.SIGKILL


def test_nobody_waits_for_a_server_that_has_ended() -> None:
    ended = subprocess.Popen(["true"])
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 5}):
        own_server.give_up_after(ended.wait)
        assert PREFECT_CLIENT_MAX_RETRIES.value() == 0
    assert ended.returncode == 0


@pytest.mark.prefect
def test_it_is_imported_elsewhere_and_ends_with_whoever_started_it(
    home: Path, tmp_path: Path
) -> None:
    script = """
import os, sys
from flows.own_server import start_own_server
start_own_server()
from prefect.client.orchestration import get_client
with get_client(sync_client=True) as client, open(sys.argv[1] + ".part", "w") as told:
    print(client.hello().status_code, "prefect.server" in sys.modules, file=told)
os.rename(sys.argv[1] + ".part", sys.argv[1])
sys.stdin.read()
"""
    told = tmp_path / "told"  # the server has words of its own for standard output
    # Of a server of theirs, behind a proxy, on the same machine.
    theirs = {
        "PREFECT_SERVER_API_BASE_PATH": "/prefect/api",
        "PREFECT_SERVER_API_AUTH_STRING": "operator:secret",
    }
    starter = subprocess.Popen(
        [sys.executable, "-c", script, str(told)],
        env=only_with(home) | theirs,
        stdin=subprocess.PIPE,
    )
    with starter:
        await_that(lambda: told.exists() or starter.poll() is not None, "no server answers")
        assert told.read_text() == "200 False\n"
        (server,) = psutil.Process(starter.pid).children()
        starter.kill()
    await_that(lambda: not server.is_running(), "the server has not ended")


@pytest.mark.usefixtures("a_server")
def test_what_the_run_needs_is_imported_while_the_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is one there is nothing to wait for; what is broken is the run's to tell."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "broken.py").write_text("raise RuntimeError")
    (tmp_path / "needed_ahead.py").touch()
    named = {**with_records_in(tmp_path), PREFECT_API_URL: "http://127.0.0.1:4200/api"}
    with temporary_settings(named):
        own_server.start_own_server(["needed_ahead"])
    assert "needed_ahead" not in sys.modules
    with temporary_settings(with_records_in(tmp_path)):
        own_server.start_own_server(["needed_ahead", "broken"])
    assert sys.modules.pop("needed_ahead")


@pytest.mark.usefixtures("a_server")
def test_prefects_folder_is_made_or_said_to_be_impossible(tmp_path: Path) -> None:
    made, impossible = tmp_path / "not" / "yet", tmp_path / "file" / "home"
    (tmp_path / "file").touch()
    with temporary_settings(with_records_in(made)):
        own_server.start_own_server()
    assert made.is_dir()
    with (
        temporary_settings(with_records_in(impossible)),
        pytest.raises(InvalidSpec, match="Not a directory; set PREFECT_HOME to a writable"),
    ):
        own_server.start_own_server()
    with temporary_settings({**with_records_in(made), PREFECT_HOME: impossible}):
        own_server.start_own_server()


def test_prefects_folder_is_to_have_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without content can be made on a full disk; its server ended with 200 lines."""

    def on_a_full_disk(**_: object) -> BinaryIO:
        return Path("/dev/full").open("wb")

    monkeypatch.setattr(own_server, "TemporaryFile", on_a_full_disk)
    with (
        temporary_settings(with_records_in(tmp_path)),
        pytest.raises(InvalidSpec, match="No space left on device; set PREFECT_HOME"),
    ):
        own_server.start_own_server()


def test_where_no_server_may_be_there_is_to_be_a_named_one(tmp_path: Path) -> None:
    none = {**with_records_in(tmp_path), PREFECT_SERVER_EPHEMERAL_ENABLED: False}
    with (
        temporary_settings(none),
        pytest.raises(InvalidSpec, match="set PREFECT_API_URL to a server"),
    ):
        own_server.start_own_server()
    with temporary_settings({**none, PREFECT_API_URL: "http://127.0.0.1:4200/api"}):
        own_server.start_own_server()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {}),
        ({"NO_PROXY": "a.corp"}, {"NO_PROXY": "a.corp"}),
        ({"HTTP_PROXY": "http://proxy:1"}, {"NO_PROXY": "127.0.0.1"}),
        ({"https_proxy": "http://proxy:1", "NO_PROXY": "a.corp"}, {"NO_PROXY": "a.corp,127.0.0.1"}),
        ({"http_proxy": "http://proxy:1", "no_proxy": "*"}, {"no_proxy": "*"}),
    ],
)
@pytest.mark.usefixtures("a_server")
def test_no_proxy_is_asked_for_it(
    before: dict[str, str], after: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        for each in (name, name.upper()):
            monkeypatch.setenv(each, "")  # to be put back
            monkeypatch.delenv(each)
    for name, value in before.items():
        monkeypatch.setenv(name, value)
    with temporary_settings(with_records_in(tmp_path)):
        own_server.start_own_server()
    assert {name: os.environ.get(name) for name in after} == after
    names_any = bool({*getproxies_environment()} - {"no"})
    assert bool(proxy_bypass("127.0.0.1")) is names_any
    assert bool(proxy_bypass("elsewhere")) is (after == {"no_proxy": "*"})


def test_a_server_that_does_not_start_is_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_server, "give_up_after", lambda ended: None)  # would be heard by all
    monkeypatch.setattr(sys, "executable", "false")
    with (
        temporary_settings(with_records_in(tmp_path)),
        pytest.raises(Unreachable, match=r"does not start: it ended\. Its output is above"),
    ):
        own_server.start_own_server()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, prefect_database: Path) -> Path:
    """Prefect's folder, with a database in which there is no run yet."""
    folder = tmp_path_factory.mktemp("prefect")
    copyfile(prefect_database, folder / "prefect.db")
    return folder


@pytest.fixture
def a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of what answers in the place of Prefect's own server."""
    (tmp_path / "served" / "api").mkdir(parents=True)
    (tmp_path / "served" / "api" / "health").touch()
    with web_server(tmp_path / "served") as answers:
        monkeypatch.setattr(own_server, "started", lambda settings: answers.address)
        yield answers.address


def with_records_in(home: Path) -> dict[Any, Any]:
    """Settings for a server of a run's own, and a folder of Prefect's."""
    url = f"sqlite+aiosqlite:///{home}/prefect.db"
    records = {PREFECT_HOME: home, PREFECT_API_DATABASE_CONNECTION_URL: url}
    return {**records, PREFECT_API_URL: None, PREFECT_SERVER_EPHEMERAL_ENABLED: True}


def only_with(home: Path) -> dict[str, str]:
    """The environment, in which nobody has said more of Prefect than its folder.

    And that its server may take its time: 20 seconds are few where a machine is busy.
    """
    others = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    patience = {"PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "240"}
    return {**others, "PREFECT_HOME": str(home), **patience}


@contextmanager
def at_a_terminal(numbers: Path, home: Path) -> Iterator["subprocess.Popen[str]"]:
    """A run with a Prefect of its own, alone in a group of processes, as a terminal's jobs are."""
    file, spec = numbers.parent / "spec.yaml", spec_of(numbers, model=SLOW)
    file.write_text(yaml.safe_dump(spec.model_dump(mode="json", by_alias=True)))
    command = [str(Path(sys.executable).with_name("batch-inference")), "run", str(file)]
    # Not in a fork of this process: what it has loaded may not bear that.
    heed_ctrl_c = [sys.executable, "-c", HEED_CTRL_C]
    with subprocess.Popen(
        [*heed_ctrl_c, *command],
        env=only_with(home),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:
        try:
            yield run
        finally:
            with suppress(ProcessLookupError):  # all have ended
                os.killpg(run.pid, signal.SIGKILL)
