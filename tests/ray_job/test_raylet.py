"""A worker ends with the process that started it, whatever it is at."""

import subprocess
import sys
import time

import psutil
import pytest

PATIENCE_SECONDS = 60.0
WORKER = """
import time
{ends_with_raylet}
print("at work", flush=True)
time.sleep(600)
"""
RAYLET = """
import subprocess, sys, time
worker = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
worker.stdout.readline()
print(worker.pid, flush=True)
time.sleep(600)
"""
ENDS = "from tasks.ray_job.raylet import end_with_raylet; end_with_raylet()"


def outlives_its_raylet(worker: str) -> bool:
    """Start a worker below a process that stands for a raylet, and SIGKILL that."""
    command = [sys.executable, "-c", RAYLET, worker]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as raylet:
        assert raylet.stdout
        started = psutil.Process(int(raylet.stdout.readline()))
        raylet.kill()
    until = time.monotonic() + (PATIENCE_SECONDS if ENDS in worker else 1.0)
    while lives(started) and time.monotonic() < until:
        time.sleep(0.05)
    left = lives(started)
    if left:
        started.kill()
    return left


def lives(process: psutil.Process) -> bool:
    """Whether it runs; one that nobody has collected does not."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux does it")
@pytest.mark.parametrize("ends", [ENDS, ""])
def test_a_worker_ends_with_its_raylet(ends: str) -> None:
    """Without it the worker stays, as a test of the test."""
    assert outlives_its_raylet(WORKER.format(ends_with_raylet=ends)) == (not ends)
