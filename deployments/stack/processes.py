"""Starts the stack's processes, and ends them and nothing else."""

import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from deployments.stack.services import Service
from tasks.lease import Holder

READY_SECONDS = 180.0
"""A cold machine reads a lot of files before a Prefect server says its first word."""
LOOK_EVERY_SECONDS = 0.3
KILLED_SECONDS = 10.0
LAST_LINES = 15


class ServiceFailedError(RuntimeError):
    """A service of the stack did not start; the message has the end of its log."""


def start(service: Service, log: Path) -> subprocess.Popen[bytes]:
    """Start a service in a session of its own: Ctrl-C at a terminal is not meant for it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    program = shutil.which(service.command[0], path=str(Path(sys.executable).parent))
    if program is None:
        raise ServiceFailedError(
            f"{service.name}: {service.command[0]} is not installed beside {sys.executable}: "
            "make install"
        )
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, program, *service.command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=service.environment,
        )


def await_ready(service: Service, holder: Holder, log: Path) -> None:
    """Wait until a service does its work.

    Raises:
        ServiceFailedError: it ends, or takes too long.
    """
    until = time.monotonic() + READY_SECONDS
    while not service.is_ready():
        if not holder.is_alive():
            raise ServiceFailedError(f"{service.name} ended: {last_words(log)}")
        if time.monotonic() > until:
            late = f"{service.name} is not ready after {READY_SECONDS:.0f} s"
            raise ServiceFailedError(f"{late}: {last_words(log)}")
        time.sleep(LOOK_EVERY_SECONDS)


def last_words(log: Path) -> str:
    """The end of a log, and where the rest of it is."""
    lines = log.read_text(errors="replace").splitlines()[-LAST_LINES:] if log.exists() else []
    return "\n".join([str(log), *lines])


def end(holders: list[Holder], seconds: float) -> None:
    """End services and all that they have started: first asked, then made to.

    Args:
        holders: their processes.
        seconds: to end of themselves.
    """
    services, started = list[psutil.Process](), list[psutil.Process]()
    for holder in holders:
        with suppress(psutil.NoSuchProcess):  # one may end of itself meanwhile
            if holder.is_here and holder.is_alive():
                services.append(psutil.Process(holder.pid))
                started += services[-1].children(recursive=True)
    for service in services:
        with suppress(psutil.NoSuchProcess):
            service.terminate()
    psutil.wait_procs(services, timeout=seconds)
    kill([*services, *started])


def end_marked(mark: str) -> None:
    """End what is left of a stack: children of a service that was killed, say."""
    kill([process for process in psutil.process_iter() if mark_of(process) == mark])


def mark_of(process: psutil.Process) -> str | None:
    """The mark in a process's environment; None where there is none or it is not ours to see."""
    try:
        return process.environ().get("STACK_MARK")
    except (psutil.Error, OSError):
        return None


def kill(processes: list[psutil.Process]) -> None:
    """Kill those that still run, and wait until they are gone; never ourselves.

    psutil compares start times: a pid that has passed to another process is left alone.
    """
    running = [each for each in processes if each.pid != psutil.Process().pid and each.is_running()]
    for process in running:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(running, timeout=KILLED_SECONDS)
