"""How the driver of a job is started: what others on the machine see of it, and may do to it."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

import psutil
import pytest

from tasks.clusters import local
from tasks.clusters.driver import driver_environment, end, launch, log_file
from tasks.clusters.local import Local
from tasks.clusters.ray_jobs import runtime_env
from tasks.errors import InvalidSpec, Unreachable
from tasks.lease import Holder, save_holder
from tasks.machine import GIB
from tasks.plan import make_plan
from tasks.ray_job import __main__ as driver
from tasks.ray_job.connection import connection
from tasks.run import left_to_do, new_job
from tasks.temporary_folder import own_folder
from tests.flows.conftest import spec_of
from tests.reporting import make_inputs

SECRET = "hunter2hunter2"


class NotStarted(Exception):
    """Raised in place of starting a process."""


def test_no_secret_is_in_the_list_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(make_inputs(tmp_path / "in"))
    sink = spec.sink.model_copy(update={"storage_options": {"auto_mkdir": True, "key": SECRET}})
    planned = make_plan(spec.model_copy(update={"sink": sink}))
    job = new_job(planned, left_to_do(planned, tried=False), 1)

    def started(command: list[str], **given: Any) -> None:
        assert SECRET not in " ".join(command)
        assert SECRET in " ".join(given["env"].values())
        raise NotStarted

    monkeypatch.setattr(subprocess, "Popen", started)
    with pytest.raises(NotStarted):
        Local().start(job)
    for name, value in (driver_environment(job.spec) | job.driver_env).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(driver, "run", lambda job: None)
    assert driver.main(job.arguments) == 0
    assert SECRET not in " ".join(os.environ.values()), "what the driver starts does not have it"


def test_another_users_driver_is_left_to_end_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """`cancel` has left word for it; whoever followed it ends well all the same."""

    def refuse(process: psutil.Process) -> None:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "terminate", refuse)
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    ) as driver:
        nobody: Any = None
        job = local.LocalJob(nobody, Holder.of(driver.pid), lambda: True)
        assert driver.stdin
        threading.Timer(0.2, driver.stdin.close).start()
        job.stop()
        assert not psutil.pid_exists(driver.pid)


def test_the_log_of_a_job_of_the_same_name_is_not_taken_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where an output was deleted, and all is run again."""
    planned = make_plan(spec_of(make_inputs(tmp_path / "in")))
    job = new_job(planned, left_to_do(planned, tried=False), 1)
    log_file(job).write_text("Traceback of yesterday\n")

    def started(command: list[str], stdout: IO[bytes], **given: Any) -> None:
        stdout.write(b"joined Ray\n")
        raise NotStarted

    monkeypatch.setattr(subprocess, "Popen", started)
    with pytest.raises(NotStarted):
        Local().start(job)
    assert log_file(job).read_text() == "joined Ray\n"


def test_logs_of_drivers_that_are_long_over_are_removed(tmp_path: Path) -> None:
    """Each run leaves one: of every hour of a year thousands."""
    month = 30 * 24 * 3600
    now = time.time()
    for name, age in {"old.log": month + 60, "new.log": month - 60, "old.json": 2 * month}.items():
        (tmp_path / name).write_text("some words\n")
        os.utime(tmp_path / name, (now - age, now - age))
    launch(["--help"], tmp_path / "own.log", env=dict(os.environ)).wait()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["new.log", "old.json", "own.log"]


def test_the_users_own_path_comes_after_our_code_and_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a Ray that is joined too, whose workers have nothing of ours but this."""
    monkeypatch.setenv("PYTHONPATH", "/of/the/shell")
    environment = {"working_dir": "/code", "env_vars": {"PYTHONPATH": "/of/the/spec"}}
    cluster = {"kind": "local", "address": "127.0.0.1:9"}
    spec = spec_of(make_inputs(tmp_path / "in"), environment=environment, cluster=cluster)
    found = driver_environment(spec)
    ours, *others = found["PYTHONPATH"].split(os.pathsep)
    assert ours.startswith(str(own_folder()))
    assert others == ["/code", "/of/the/spec", "/of/the/shell"]
    joined = connection(spec, found)["runtime_env"]["env_vars"]
    assert joined["PYTHONPATH"] == found["PYTHONPATH"]


def test_ray_keeps_no_more_in_memory_than_its_share_of_what_the_run_is_granted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray knows what the machine has, or a container, but not a systemd unit or a batch job."""
    monkeypatch.setattr("tasks.clusters.driver.memory", lambda: 4 * GIB)
    environment = driver_environment(spec_of(make_inputs(tmp_path / "in")))
    code = "from ray._private.utils import resolve_object_store_memory as taken"
    command = [sys.executable, "-c", f"{code}; print(taken({64 * GIB}))"]
    taken = subprocess.check_output(command, env=environment)
    assert int(taken) == int(0.3 * 4 * GIB)


def test_a_password_with_a_dollar_reaches_the_driver_as_it_is(tmp_path: Path) -> None:
    """Ray fills in variables wherever a job's environment names them."""
    from ray._private.utils import update_envs

    spec, key = spec_of(make_inputs(tmp_path / "in")), "a$HOME ${HOME} $$ ${NONE} \\$"
    sink = spec.sink.model_copy(update={"storage_options": {"auto_mkdir": True, "key": key}})
    planned = make_plan(spec.model_copy(update={"sink": sink}))
    job = new_job(planned, left_to_do(planned, tried=False), 1)
    (name,) = job.driver_env
    with patch.dict(os.environ):
        update_envs(job.driver_env)
        assert json.loads(os.environ[name])["key"] == key


def test_a_driver_that_could_not_be_noted_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would find it, and the next who asks for the job starts another one."""
    planned = make_plan(spec_of(make_inputs(tmp_path / "in")))
    job = new_job(planned, left_to_do(planned, tried=False), 1)
    waits = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True)

    def refuse(*_: object) -> None:
        raise ConnectionError("503 Slow Down")

    monkeypatch.setattr(local, "taken", lambda *_: waits)
    monkeypatch.setattr(local, "save_holder", refuse)
    with waits:
        with pytest.raises(Unreachable, match=r"did not take .*driver\.json .*503 Slow Down"):
            Local().start(job)
        assert not psutil.pid_exists(waits.pid)


def test_of_a_driver_elsewhere_only_what_it_writes_tells_that_it_lives(tmp_path: Path) -> None:
    """Whoever follows it has a clock of their own for that, and its machine's may be off."""
    planned = make_plan(spec_of(make_inputs(tmp_path / "in")))
    job = new_job(planned, left_to_do(planned, tried=False), 1)
    for host, is_alive in ((None, True), ("elsewhere", None)):
        own = Holder.of(os.getpid())
        save_holder(job.storage, local.driver_file(job), replace(own, host=host or own.host))
        found = Local().attach(job)
        assert found
        assert found.is_alive() is is_alive


@pytest.mark.parametrize("made", ["a link", "open to all"])
def test_a_folder_that_others_can_write_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = own_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    if made == "a link":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.chmod(0o777)
    with pytest.raises(InvalidSpec, match=r"^TMPDIR: .*is not a folder that only you own"):
        own_folder()


def test_a_driver_that_ends_by_itself_meanwhile_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        found = psutil.Process(process.pid)
        process.kill()
        process.wait()
    end(found)


def test_nothing_is_left_of_a_driver_that_has_ended(tmp_path: Path) -> None:
    """A process that runs hundreds of jobs would else fill the system's table of processes."""
    pid = launch(["--no-such-option"], tmp_path / "log").pid
    until = time.monotonic() + 60
    while psutil.pid_exists(pid):  # a zombie does, too
        assert time.monotonic() < until
        time.sleep(0.05)


def test_what_ray_kills_for_want_of_memory_it_does_not_run_for_ever(tmp_path: Path) -> None:
    """Of a reader or a step; a replica is in `tests/ray_job/test_killed_replica.py`."""
    planned = make_plan(spec_of(make_inputs(tmp_path / "in")))
    job = new_job(planned, left_to_do(planned, tried=False), 1)
    for environment in (driver_environment(job.spec), runtime_env(job, "code")["env_vars"]):
        assert int(environment["RAY_task_oom_retries"]) > 0
