"""A small Ray on this machine, for tests that share one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from tasks.clusters.driver import QUIET_RAY
from tasks.clusters.own_ray import ON_LOOPBACK
from tasks.errors import Unreachable

HEAD = """
import ray, sys
from tasks.ray_job.bare_head import bare_head
sizes = {"num_cpus": 4, "object_store_memory": 300 << 20}
# Without an address Ray would join whatever else has been started on this machine.
with bare_head():
    ray.init(address="local", include_dashboard=False, logging_level="ERROR", **sizes)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""
FOR_CLIENTS = {"RAY_AUTH_MODE": "disabled", **ON_LOOPBACK}
"""What those who use it need in their environment. It asks for no token, and other machines cannot
reach it."""
NO_SPARE_WORKERS = {"RAY_prestart_worker_first_driver": "0", "RAY_enable_worker_prestart": "0"}
"""Ray starts a process for each core in advance; jobs with an environment use none of them."""
TRIES = 3
"""Ray gives a node 30 seconds to start, and nobody else a say; a busy machine may need more."""


@contextmanager
def small_ray() -> Iterator[str]:
    """Start a head with four cores and end it with all its processes.

    Its clients need `FOR_CLIENTS` in their environment.

    Yields:
        Its address.

    Raises:
        Unreachable: it did not start.
    """
    for _ in range(TRIES):
        head = start()
        try:
            if address := address_of(head):
                yield address
                return
        finally:
            end(head)
    raise Unreachable(f"Ray did not start in {TRIES} tries; its messages are on stderr")


def start() -> subprocess.Popen[str]:
    """A process that starts a head, and ends with its standard input."""
    return subprocess.Popen(
        [sys.executable, "-c", HEAD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **QUIET_RAY, **NO_SPARE_WORKERS, **FOR_CLIENTS},
    )


def address_of(head: subprocess.Popen[str]) -> str:
    """Where a head listens, as soon as it does; empty where it did not start."""
    assert head.stdout
    return head.stdout.readline().strip()


def end(head: subprocess.Popen[str]) -> None:
    """Kill a process and all that it has started; there is nothing to be saved."""
    if head.poll() is None:
        process = psutil.Process(head.pid)
        for each in [*process.children(recursive=True), process]:
            if each.is_running():
                each.kill()
    head.communicate()
