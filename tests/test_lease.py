"""Who works on a run: a process by its machine, pid and start."""

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from tasks.clusters import local
from tasks.clusters.local import LocalJob
from tasks.errors import Orphaned
from tasks.lease import SILENT_SECONDS, Holder, hold, holder_of, kept_held, load_holder, save_holder
from tasks.protocol.layout import RunFolder
from tasks.protocol.storage import open_storage
from tasks.ray_job import follower_heartbeat
from tasks.spec_parts import Timeouts
from tests.s3_server import S3


def test_the_same_pid_on_another_machine_is_somebody_else(tmp_path: Path) -> None:
    storage, folder = open_storage(str(tmp_path))
    run = RunFolder(f"{folder}/runs/r")
    hold(storage, run)
    assert holder_of(storage, run) is None
    other = replace(Holder.of(os.getpid()), host=f"not-{socket.gethostname()}")
    save_holder(storage, run.lease, other)
    assert holder_of(storage, run) == other
    age(run.lease, 200)
    assert holder_of(storage, run) is None


def age(path: str, seconds: float) -> None:
    """Have a storage say that a file was written so long ago."""
    written = time.time() - seconds
    os.utime(path, (written, written))


@pytest.mark.parametrize("name", ["lease.json", "attempts/1/driver.json"])
@pytest.mark.parametrize(("its_clock", "ours"), [(3600, 0), (-3600, 0), (0, 3600), (0, -3600)])
def test_whoever_works_elsewhere_is_silent_by_the_storages_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, its_clock: float, ours: float
) -> None:
    """One that had died held the output as long as it was ahead, and one behind never did."""
    storage, folder = open_storage(str(tmp_path))
    run, began = RunFolder(f"{folder}/runs/r"), Holder.of(os.getpid())
    file, now = f"{run.path}/{name}", time.time
    save_holder(storage, file, replace(began, host="elsewhere", at=now() + its_clock))
    for seconds, is_held in ((SILENT_SECONDS + 5, False), (SILENT_SECONDS - 5, True)):
        age(file, seconds)
        with monkeypatch.context() as then:
            then.setattr(time, "time", lambda: now() + ours)
            assert (holder_of(storage, run) is not None) is is_held
    assert [each.path for each in storage.list(run.path)] == [file]


def test_who_writes_while_the_storage_is_asked_for_the_time_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which may take as long as its client tries again."""
    storage, folder = open_storage(str(tmp_path))
    run = RunFolder(f"{folder}/runs/r")
    other = replace(Holder.of(os.getpid()), host="elsewhere")
    save_holder(storage, run.lease, other)
    age(run.lease, 200)

    def late(*_: Any) -> float:
        save_holder(storage, run.lease, other)
        return time.time()

    monkeypatch.setattr("tasks.lease.now_at", late)
    assert holder_of(storage, run) == other


@pytest.mark.s3
def test_an_object_store_says_how_long_nothing_was_written(
    monkeypatch: pytest.MonkeyPatch, s3: S3
) -> None:
    storage, folder = open_storage(s3.url("silent"), s3.storage_options)
    run, holder = RunFolder(f"{folder}/runs/r"), Holder.of(os.getpid())
    save_holder(storage, run.lease, replace(holder, host="elsewhere", at=0.0))
    written = storage.modified(run.lease)
    assert written
    assert holder_of(storage, run) is not None
    for later, is_held in ((SILENT_SECONDS - 5, True), (SILENT_SECONDS + 5, False)):
        monkeypatch.setattr("tasks.lease.now_at", lambda *_, by=later: written + by)
        assert (holder_of(storage, run) is not None) is is_held
    assert [each.path for each in storage.list(run.path)] == [run.lease]


@pytest.mark.parametrize("lacks", ["write", "modified"])
def test_where_a_storage_says_no_time_machines_clocks_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    """As to whoever may only read there, and on filesystems that keep no times."""
    storage, folder = open_storage(str(tmp_path))
    run, holder = RunFolder(f"{folder}/runs/r"), replace(Holder.of(os.getpid()), host="elsewhere")
    driver = f"{run.path}/attempts/1/driver.json"
    for seconds, is_held in ((5, True), (SILENT_SECONDS + 5, False)):
        at = time.time() - seconds
        for file in (run.lease, driver):
            save_holder(storage, file, replace(holder, at=at))
            age(file, seconds)
        with monkeypatch.context() as then:
            refused = OSError("read only") if lacks == "write" else None
            then.setattr(storage, lacks, Mock(side_effect=refused, return_value=None))
            assert (holder_of(storage, run) is not None) is is_held


def job_in(folder: Path) -> Any:
    """Stands for a job whose attempt has a folder."""
    files = {f"{name}_file": str(folder / name) for name in ("followed", "stopped", "result")}
    spec = SimpleNamespace(timeouts=Timeouts())
    return SimpleNamespace(id="run-1", spec=spec, storage=open_storage(str(folder))[0], **files)


def test_no_process_here_is_ended_for_a_driver_on_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "WORD_SECONDS", 0.1)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        here = Holder.of(process.pid)
        for holder, is_ended in ((replace(here, host="elsewhere"), False), (here, True)):
            job = LocalJob(job_in(tmp_path), holder, lambda: process.poll() is None)
            job.stop()
            assert (process.poll() is not None) is is_ended


def test_a_driver_that_is_gone_is_stopped_without_a_word(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        holder = Holder.of(process.pid)
        process.wait()
    LocalJob(job_in(tmp_path), holder, lambda: False).stop()
    assert not [*tmp_path.iterdir()]


def test_a_driver_on_another_machine_ends_as_soon_as_nobody_follows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not when `timeouts.orphan_seconds` have passed: it may hold GPUs."""
    monkeypatch.setattr(follower_heartbeat, "LOOK_EVERY_SECONDS", 0.02)
    job, ended = job_in(tmp_path), list[str]()
    follower_heartbeat.leave_sign(job)

    def drive() -> None:
        signs = follower_heartbeat.Followed(job)
        try:
            while True:
                signs.check()
                time.sleep(0.01)
        except Orphaned as error:
            ended.append(str(error))
            job.storage.write(job.result_file, b"{}")

    there = Thread(target=drive)
    there.start()
    holder = replace(Holder.of(os.getpid()), host="elsewhere")
    LocalJob(job, holder, lambda: True).stop()
    there.join(60)
    assert ended == ["the run that followed this job has ended; run it again to continue"]
    sign = (tmp_path / "followed").read_bytes()
    LocalJob(job, holder, lambda: True).stop()
    assert (tmp_path / "followed").read_bytes() == sign, "what has its result needs no word"


def test_a_step_of_the_clock_makes_nobody_look_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, path = open_storage(str(tmp_path))
    path = f"{path}/driver.json"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        save_holder(storage, path, Holder.of(process.pid))
        begun = psutil.Process.create_time
        monkeypatch.setattr(psutil.Process, "create_time", lambda self: begun(self) + 7)
        holder = load_holder(storage, path)
        assert holder is not None
        assert holder.is_alive()
        assert not replace(holder, birth=Holder.of(os.getpid()).birth).is_alive()
        assert not replace(holder, birth=None).is_alive(), "of older versions there is no more"
        process.communicate()
    assert not holder.is_alive()


def test_what_other_versions_have_noted_is_read(tmp_path: Path) -> None:
    storage, path = open_storage(str(tmp_path))
    path, here = f"{path}/driver.json", Holder.of(os.getpid())
    noted = {"host": here.host, "pid": here.pid, "started": here.started, "at": here.at}
    for started, is_alive in ((here.started + 0.5, True), (here.started - 50, False)):
        storage.write(path, json.dumps({**noted, "started": started, "more": 1}).encode())
        holder = load_holder(storage, path)
        assert holder is not None
        assert (holder.birth, holder.is_alive()) == (None, is_alive)


def test_a_driver_elsewhere_is_at_work_as_long_as_it_says_so(tmp_path: Path) -> None:
    storage, folder = open_storage(str(tmp_path))
    run = RunFolder(f"{folder}/runs/r")
    begun = replace(Holder.of(os.getpid()), host="elsewhere")
    attempt = f"{run.path}/attempts/1"
    save_holder(storage, f"{attempt}/driver.json", begun)
    age(f"{attempt}/driver.json", 3600)
    assert holder_of(storage, run) is None
    for ago, is_held in ((5, True), (SILENT_SECONDS + 5, False)):
        storage.write(f"{attempt}/progress.json", json.dumps({"at": time.time()}).encode())
        age(f"{attempt}/progress.json", ago)
        assert (holder_of(storage, run) is not None) is is_held


def test_a_run_is_held_as_long_as_something_is_done_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To publish a large one takes longer than whoever says nothing is taken for alive."""
    monkeypatch.setattr("tasks.lease.RENEW_SECONDS", 0.02)
    storage, run = open_storage(str(tmp_path))[0], RunFolder(str(tmp_path / "run"))
    tried: list[int] = []

    def say() -> None:
        tried.append(len(tried))
        if len(tried) == 1:
            raise OSError("the storage is away")
        hold(storage, run)

    with kept_held(say):
        while load_holder(storage, run.lease) is None:
            time.sleep(0.01)
    count = len(tried)
    assert count >= 2
    time.sleep(0.1)
    assert len(tried) == count, "nothing is said any more"
