"""The cluster that cells share, until one of them breaks it."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psutil

from deployments.stack.ports import any_free_port
from tests.chaos.processes import GONE, MARK
from tests.ray_cluster import RayCluster, ray_cluster


@dataclass
class Clusters:
    """One cluster after another, all at the same address."""

    folder: Path
    environment: dict[str, str]
    port: int = field(default_factory=any_free_port)
    gcs_port: int = field(default_factory=any_free_port)
    numbers: Iterator[int] = field(default_factory=count)
    stack: ExitStack = field(default_factory=ExitStack)
    running: RayCluster | None = None

    @property
    def address(self) -> str:
        """URL of the Jobs API."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> RayCluster:
        """The cluster that runs, or a new one: a head, two nodes with a GPU that does not exist."""
        if self.running is None:
            folder = self.folder / f"r{next(self.numbers)}"
            folder.mkdir()
            environment = {**self.environment, MARK: str(folder)}
            started = ray_cluster(
                folder,
                dashboard_port=self.port,
                gcs_port=self.gcs_port,
                environment=environment,
                num_gpus=1,
            )
            self.running = self.stack.enter_context(started)
        return self.running

    def kill_head(self) -> None:
        """SIGKILL the head with all that runs there, drivers too; its nodes live on without it."""
        for pid in self.start().head.values():
            kill_tree(pid)
        self.running = None

    def kill_gcs(self) -> None:
        """SIGKILL what makes the head one; its raylet and drivers live on, as the nodes do."""
        head = self.start().head
        for name in ("gcs_server", "dashboard"):
            kill_tree(head[name])
        self.running = None

    def kill_if_broken(self) -> None:
        """Kill it where a node is gone: whoever comes next wants all of them.

        A fault need not be meant for a node: one whose agent is killed ends itself.
        """
        if self.running and not all(map(is_alive, self.running.raylets)):
            self.kill()

    def kill(self) -> None:
        """SIGKILL all of its processes: head, nodes, workers, drivers."""
        self.stack.close()
        self.running = None


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has collected does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except GONE:
        return False


def kill_tree(pid: int) -> int:
    """SIGKILL a process and all below it; how many."""
    try:
        top = psutil.Process(pid)
        doomed = [top, *top.children(recursive=True)]
    except GONE:
        return 0
    for process in doomed:
        if process.is_running():
            process.kill()
    return len(doomed)
