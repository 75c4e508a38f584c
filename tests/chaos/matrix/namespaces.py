"""A cluster whose head and nodes have an address each, in network namespaces of their own.

    orchestrator ── link ──┐ switch ├── head
                                    ├── node 1
                                    └── node 2

To cut the link is to unplug it at the switch: packets vanish, head and nodes still hear each other.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.matrix.clusters import kill_tree
from tests.chaos.matrix.link import Cut
from tests.ray_cluster import STORE_BYTES, await_jobs_api

NODES = ("head", "one", "two")
PORT, DASHBOARD_PORT = 6379, 8265
RAY = str(Path(sys.executable).with_name("ray"))
AUTH = {"RAY_AUTH_MODE": "disabled"}


class NoNamespacesError(Exception):
    """This machine lets us make none; says why."""


def ip(*words: str) -> None:
    """Call `ip`.

    Raises:
        NoNamespacesError: it fails, or is not there.
    """
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NoNamespacesError("there is no `ip`") from None
    if done.returncode:
        raise NoNamespacesError(f"ip {' '.join(words)}: {done.stderr.strip()}")


@dataclass(frozen=True)
class Network:
    """A switch with cables to this machine, to a head and to nodes."""

    name: str
    subnet: str

    @property
    def switch(self) -> str:
        """The switch's namespace."""
        return f"{self.name}-switch"

    @property
    def address(self) -> str:
        """URL of the head's Jobs API."""
        return f"http://{self.host('head')}:{DASHBOARD_PORT}"

    def host(self, node: str) -> str:
        """A node's address."""
        return f"{self.subnet}.{10 + NODES.index(node)}"

    def make(self) -> None:
        """Make all of it.

        Raises:
            NoNamespacesError: that is not possible here.
        """
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.switch, "link", "set", "bridge", "up")
        self.plug("uplink")
        ip("addr", "add", f"{self.subnet}.1/24", "dev", self.name)
        ip("link", "set", self.name, "up")
        for node in NODES:
            inside = ("-n", f"{self.name}-{node}")
            ip("netns", "add", f"{self.name}-{node}")
            self.plug(node, inside[1])
            ip(*inside, "addr", "add", f"{self.host(node)}/24", "dev", self.name)
            ip(*inside, "link", "set", self.name, "up")
            ip(*inside, "link", "set", "lo", "up")

    def plug(self, port: str, namespace: str | None = None) -> None:
        """A cable from a port of the switch to a namespace, or to this machine."""
        to = ("netns", namespace) if namespace else ("netns", str(os.getpid()))
        inside = ("-n", self.switch, "link")
        ip(*inside, "add", port, "type", "veth", "peer", "name", self.name, *to)
        ip(*inside, "set", port, "master", "bridge")
        ip(*inside, "set", port, "up")

    def remove(self) -> None:
        """Remove what there is of it."""
        for namespace in (self.switch, *(f"{self.name}-{node}" for node in NODES)):
            with suppress(NoNamespacesError):
                ip("netns", "del", namespace)

    def cut(self, how: Cut) -> None:
        """Unplug this machine: all that it sends vanishes."""
        assert how == "drop"
        ip("-n", self.switch, "link", "set", "uplink", "down")

    def restore(self) -> None:
        """Plug it in again."""
        ip("-n", self.switch, "link", "set", "uplink", "up")


@contextmanager
def network() -> Iterator[Network]:
    """Namespaces and cables, gone in the end.

    Raises:
        NoNamespacesError: this machine lets us make none.
    """
    made = Network(f"cm{os.getpid()}", f"10.231.{os.getpid() % 250}")
    try:
        made.make()
        yield made
    finally:
        made.remove()


@contextmanager
def cluster_in(made: Network, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """A head and two nodes with a GPU that does not exist, in a network."""
    quiet = {"RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    home = {"HOME": str(folder), "RAY_TMPDIR": str(folder), "TMPDIR": str(folder)}
    environment = {**environment, **quiet, **home, **AUTH}
    with ExitStack() as stack:
        for node in NODES:
            command = ["ip", "netns", "exec", f"{made.name}-{node}", *ray_start(made, node)]
            with (folder / f"{node}.log").open("wb") as log:
                process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            stack.callback(process.wait)
            stack.callback(kill_tree, process.pid)
            if node == "head":
                await_jobs_api(made.address, AUTH)
        yield


def ray_start(made: Network, node: str) -> list[str]:
    """The command that starts the head or a node."""
    common = [RAY, "start", "--block", f"--node-ip-address={made.host(node)}"]
    common.append(f"--object-store-memory={STORE_BYTES}")
    if node != "head":
        return [*common, f"--address={made.host('head')}:{PORT}", "--num-cpus=2", "--num-gpus=1"]
    dashboard = ["--dashboard-host=0.0.0.0", f"--dashboard-port={DASHBOARD_PORT}"]
    return [*common, "--head", f"--port={PORT}", "--num-cpus=1", *dashboard]
