"""The Ray that tests share, whatever it says and whichever of its processes ends first."""

import os
import signal
import subprocess

import psutil
import pytest

from flows import small_ray
from tasks.clusters.own_ray import raylet_of

NOISE = "print('(raylet) what goes wrong elsewhere\\n' * 10_000, flush=True)\n"


@pytest.mark.ray
@pytest.mark.usefixtures("short_ray_folder")
def test_what_ray_prints_is_not_its_address_and_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It says at any time what goes wrong in its cluster, which a pipe has no room for."""
    monkeypatch.setattr(small_ray, "HEAD", NOISE + small_ray.HEAD + NOISE)
    with small_ray.small_ray() as address:
        raylet = raylet_of(address.rpartition(":")[2])
        assert raylet
    _, alive = psutil.wait_procs([raylet], timeout=60)
    assert not alive


def test_what_has_ended_with_another_one_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ray's workers do with their raylet."""

    def kill_too_late(process: psutil.Process) -> None:
        os.kill(process.pid, signal.SIGKILL)
        raise psutil.NoSuchProcess(process.pid)

    monkeypatch.setattr(psutil.Process, "kill", kill_too_late)
    head = subprocess.Popen(["sh", "-c", "sleep 60 & echo; exec sleep 60"], stdout=subprocess.PIPE)
    assert head.stdout
    head.stdout.readline()
    child = psutil.Process(head.pid).children()[0]
    small_ray.end(head)
    assert head.returncode == -signal.SIGKILL
    _, alive = psutil.wait_procs([child], timeout=60)
    assert not alive
