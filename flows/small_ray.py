"""A small Ray on this machine, for tests that share one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

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
with open(int(sys.argv[1]), "w") as told:
    print(ray.get_runtime_context().gcs_address, file=told)
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
        reader, writer = os.pipe()
        with open(reader) as told:
            head = start(writer)
            try:
                if address := told.readline().strip():  # empty where it has ended
                    yield address
                    return
            finally:
                end(head)
    raise Unreachable(f"Ray did not start in {TRIES} tries; its messages are on stderr")


def start(tell: int) -> subprocess.Popen[bytes]:
    """A process that starts a head, and ends with its standard input.

    On its standard output Ray prints, at any time, what goes wrong elsewhere in its cluster.

    Args:
        tell: a descriptor, on which it says where it listens.
    """
    try:
        return subprocess.Popen(
            [sys.executable, "-c", HEAD, str(tell)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[tell],
            env={**os.environ, **QUIET_RAY, **NO_SPARE_WORKERS, **FOR_CLIENTS},
        )
    finally:
        os.close(tell)


def end(head: "subprocess.Popen[Any]") -> None:
    """Kill a process and all that it has started; there is nothing to be saved."""
    with head:  # it is waited for
        if head.poll() is not None:
            return
        process = psutil.Process(head.pid)
        for each in [*process.children(recursive=True), process]:
            with suppress(psutil.NoSuchProcess):  # it has ended with one before it
                each.kill()
