"""A driver's end: at once, and nothing of what it has started is left."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tasks.clusters.local import Local
from tasks.errors import StageFailed
from tasks.ray_job.result import failure
from tests.flows.conftest import numbers as numbers  # a fixture
from tests.ray_job.test_operators import NO_STEP
from tests.test_waiting import PATIENCE, job_of, names_below

HEAD = "import atexit, subprocess, sys; from tasks.ray_job.ending import end_with_children;"
LAST_WORD = "atexit.register(print, 'Python ended');\n"
CHILD = "subprocess.Popen(['sh', '-c', 'sleep 60 & wait']);"

TOLD_MEANWHILE = """
import os, psutil, signal
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
psutil.Process.kill = lambda each: (signal.raise_signal(signal.SIGTERM), os.kill(each.pid, 9))
"""
"""Ray has such a handler."""
WHO_IS_THERE = """
import os, time
from contextlib import suppress
from pathlib import Path
import numpy as np, psutil, ray
from tasks.ray_job.bare_head import NO_FIGURES
from tasks.ray_job.connection import connect

told = open(sys.argv[1], "w")
alone = {"address": "local", "include_dashboard": False, "num_cpus": 1}
connect({**alone, "object_store_memory": 80 << 20})
for each in psutil.Process().children(recursive=True):
    with suppress(psutil.NoSuchProcess):  # it ends meanwhile
        print(each.name(), *each.cmdline(), file=told)
        if each.name() == "raylet":
            print("figures", *(each.environ()[name] for name in NO_FIGURES), file=told)
print("cores", ray.cluster_resources()["CPU"], file=told)
"""
"""In a file, as Ray has words of its own for a driver's standard output."""
ORPHANS = """
@ray.remote
class Replica:
    def start_engine(self):
        return os.getpid(), subprocess.Popen(["sleep", "100"]).pid

held = Replica.remote()
replica, engine = map(psutil.Process, ray.get(held.start_engine.remote()))
replica.kill()
try:
    engine.wait(60)
    print("the engine is gone", file=told)
except psutil.TimeoutExpired:
    print("the engine is still there", file=told)
    engine.kill()
"""
SPILL = """
held = [ray.put(np.zeros(40 << 20, np.uint8)) for _ in range(4)]
session = Path(os.environ["RAY_TMPDIR"], "ray", "session_latest").resolve()
while not (spilled := [each for each in session.glob("ray_spilled*/*") if each.is_file()]):
    time.sleep(0.1)
print("spilled to", spilled[0].parent, file=told, flush=True)
"""
AS_RAY = """
import types
def destroy_external_storage(): print("what was spilled is removed")
node = types.SimpleNamespace(destroy_external_storage=destroy_external_storage)
sys.modules["ray._private.worker"] = types.SimpleNamespace(_global_node=node)
subprocess.Popen(["sh", "-c", "sleep 60 & wait", "raylet", "--session-dir={session}"])
"""
"""Has a child that is told of its session as Ray tells its head."""


def ended(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HEAD + LAST_WORD + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_a_process_without_children_ends_as_any_other() -> None:
    done = ended("end_with_children(3)")
    assert (done.returncode, done.stdout) == (3, "Python ended\n")


@pytest.mark.parametrize("meanwhile", ["", TOLD_MEANWHILE])
def test_what_it_has_started_ends_with_it(meanwhile: str) -> None:
    """The pipe would stay open as long as one of them lives."""
    begun = time.monotonic()
    done = ended(meanwhile + CHILD + "print('last word'); end_with_children(3)")
    assert time.monotonic() - begun < 30
    assert (done.returncode, done.stdout) == (3, "last word\n")


@pytest.mark.ray
@pytest.mark.usefixtures("short_ray_folder")
def test_a_ray_of_ones_own_is_bare_and_takes_along_what_it_has_spilled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has neither an autoscaler nor a dashboard, and leaves its logs where the code is not 0.

    What a worker has started ends with that, as vLLM's engine, which would keep the GPU, when its
    replica is killed.
    """
    monkeypatch.setenv("RAY_event_stats", "1")  # somebody wants these
    told = tmp_path / "told"
    done = ended(f"{WHO_IS_THERE}{ORPHANS}{SPILL}end_with_children(3)", str(told))
    assert done.returncode == 3, done.stderr
    there, _, rest = told.read_text().partition("spilled to ")
    assert "raylet" in there
    assert "figures 0 1" in there
    assert "cores 1.0" in there
    assert "the engine is gone" in there
    for unneeded in ("autoscaler", "dashboard.py"):
        assert unneeded not in there
    spilled = Path(rest.splitlines()[0])
    session, latest = spilled.parent, spilled.parents[1] / "session_latest"
    assert not spilled.exists()
    assert session.is_dir()
    assert latest.is_symlink()


@pytest.mark.parametrize("code", [0, 1])
def test_nothing_is_left_of_a_ray_but_its_logs(code: int, tmp_path: Path) -> None:
    """And these only where somebody may look for what went wrong."""
    session, latest = tmp_path / "session_1", tmp_path / "session_latest"
    session.mkdir()
    latest.symlink_to(session)
    done = ended(AS_RAY.format(session=session) + f"end_with_children({code})")
    assert (done.returncode, done.stdout) == (code, "what was spilled is removed\n"), done.stderr
    assert session.is_dir() == latest.is_symlink() == bool(code)


@pytest.mark.ray
@pytest.mark.usefixtures("short_ray_folder")
@pytest.mark.parametrize("fault", [None, "it is told to end"])
def test_nothing_is_left_of_a_driver_but_its_result(numbers: Path, fault: str | None) -> None:
    """Which names the stage that failed on a Ray of the run's own, though a replica has done it."""
    job = job_of(numbers, **NO_STEP)
    job.save()
    running, until = Local().start(job), time.monotonic() + PATIENCE
    pid = running.holder.pid
    if fault:
        while not any("raylet" in each for each in names_below(psutil.Process(pid))):
            assert time.monotonic() < until
            time.sleep(0.1)
        tree = psutil.Process(pid).children(recursive=True)
        psutil.Process(pid).terminate()
    while running.is_alive():
        assert time.monotonic() < until
        tree = [each for each in psutil.process_iter() if session_of(each) == pid] or tree
        time.sleep(0.2)
    error = failure(json.loads(Path(job.result_file).read_text()))
    if fault is None:
        said = "stage preprocess failed: ValueError: no file vocab.txt (predictors.py:"
        assert isinstance(error, StageFailed)
        assert error.stage == "preprocess"
        assert str(error).startswith(said)
    _, alive = psutil.wait_procs(tree, timeout=PATIENCE)
    assert not alive


def session_of(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return None
