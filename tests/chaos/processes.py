"""Finds and kills the processes that a scenario started, by a mark in their environment.

Ray's workers are in sessions of their own and outlive their driver for seconds, so that neither
process groups nor parents find them; the environment is inherited by all.
"""

import contextlib
import random
import time

import psutil

MARK = "CHAOS_MARK"
GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)
WHOLE_TREE = "tree"


def marked(mark: str) -> list[psutil.Process]:
    """Live processes that bear a mark."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(*GONE):
            if process.environ().get(MARK) == mark:
                found.append(process)
    return found


def role(process: psutil.Process) -> str:
    """What a process does for the run."""
    try:
        words = process.cmdline()
    except GONE:
        return "gone"
    line = " ".join(words)
    if line.startswith("ray::"):
        return "worker"
    if "tasks.ray_job" in line:
        return "driver"
    if "batch-inference" in line:
        return "orchestrator"
    name = words[0].rsplit("/", 1)[-1] if words else ""
    return {"raylet": "raylet", "gcs_server": "gcs"}.get(name, "other")


def kill(mark: str, kind: str, dice: random.Random) -> int:
    """SIGKILL all of a scenario's processes, or one of a kind; return how many.

    Where there is none of that kind yet, the whole tree is killed.
    """
    processes = marked(mark)
    of_kind = [process for process in processes if role(process) == kind]
    for process in [dice.choice(of_kind)] if of_kind else processes:
        with contextlib.suppress(*GONE):
            process.kill()
    return 1 if of_kind else len(processes)


def end_all(mark: str, seconds: float = 20.0) -> None:
    """Kill until nothing with the mark is left."""
    until = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < until:
        for process in left:
            with contextlib.suppress(*GONE):
                process.kill()
        psutil.wait_procs(left, timeout=1)
