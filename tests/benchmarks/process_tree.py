"""Runs a command; tells its seconds, and CPU and memory of all the processes it starts."""

import json
import os
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

SAMPLE_SECONDS = 0.5
PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Usage:
    """What a command took."""

    seconds: float
    """By the clock, from its start to its end."""
    cpu: float
    """User and system seconds of all its processes, as of the last look at each."""
    memory: int
    """Most bytes that its processes had to themselves at one time, without shared memory."""
    told: dict[str, Any]
    """The last line of its standard output that is an object of JSON."""


class Tree:
    """A command and all below it; followed on even where their parents are gone."""

    def __init__(self, root: int) -> None:
        self.cpu = {psutil.Process(root): 0.0}
        """User and system seconds of each process."""
        self.memory = 0

    def look(self) -> None:
        """Find processes, and take their figures."""
        known = {each.pid for each in self.cpu}
        for each in psutil.process_iter(["ppid"]):  # parents come before their children
            if each.info["ppid"] in known:
                known.add(each.pid)
                self.cpu.setdefault(each, 0.0)
        self.memory = max(self.memory, sum(map(self.measured, [*self.cpu])))

    def measured(self, process: psutil.Process) -> int:
        """Note a process's CPU seconds; its private bytes, 0 where it has ended."""
        try:
            times, sizes = process.cpu_times(), process.memory_info()
        except psutil.NoSuchProcess:
            return 0
        self.cpu[process] = times.user + times.system
        return int(sizes.rss - sizes.shared)

    def look_until(self, over: threading.Event) -> None:
        """Look again and again."""
        while not over.wait(SAMPLE_SECONDS):
            self.look()

    def end(self) -> None:
        """Wait for those that outlive the command; kill who stays."""
        _, alive = psutil.wait_procs([*self.cpu], PATIENCE_SECONDS)
        for each in alive:
            each.kill()


def run(command: list[str], environment: dict[str, str], log: Path) -> Usage:
    """Run a command to its end.

    Raises:
        RuntimeError: it failed; with the last of what it said.
    """
    out, over = log.with_suffix(".out"), threading.Event()
    begun = time.monotonic()
    with log.open("wb") as errors, out.open("wb") as said:
        process = subprocess.Popen(
            command, stdout=said, stderr=errors, env={**os.environ, **environment}
        )
    tree = Tree(process.pid)
    watcher = threading.Thread(target=tree.look_until, args=[over])
    watcher.start()
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its figures are still there
        seconds = time.monotonic() - begun
    finally:
        over.set()
        watcher.join()
        tree.look()
        code = process.wait()
        tree.end()
    if code:
        raise RuntimeError(f"{' '.join(command)}: exit {code}\n{log.read_text()[-3_000:]}")
    # Ray may have something to say when a script has told all.
    *_, told = (line for line in out.read_text().splitlines() if line.startswith("{"))
    return Usage(seconds, sum(tree.cpu.values()), tree.memory, json.loads(told))
