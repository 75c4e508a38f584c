"""A Ray cluster of a head and nodes, all processes of their own on this machine.

`python -m tests.ray_cluster '<options as JSON>'` prints addresses and pids as one line of JSON,
and stays until it is killed. Its nodes end with it.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deployments.stack.ports import any_free_port
from flows.small_ray import NO_SPARE_WORKERS, TRIES, end
from tasks.clusters.driver import QUIET_RAY
from tasks.clusters.own_ray import ON_LOOPBACK
from tests.autoscaling import ENVIRONMENT, autoscaling

STORE_BYTES = 200 << 20
READY_SECONDS = 180.0


@dataclass(frozen=True)
class RayCluster:
    """A cluster that runs."""

    address: str
    """For `ray.init`."""
    dashboard: str
    """URL of dashboard and Jobs API."""
    head: dict[str, int]
    """Pids of the head's processes by name, such as gcs_server, raylet, dashboard."""
    raylets: list[int]
    """Pids of the nodes' raylets."""
    pid: int
    """The process that holds all of it."""
    environment: dict[str, str] = field(repr=False, default_factory=dict)
    """What a client of the cluster needs in its environment."""


@contextmanager
def ray_cluster(
    folder: Path,
    *,
    nodes: int = 2,
    token: str | None = None,
    dashboard_port: int | None = None,
    environment: dict[str, str] | None = None,
    scales_to: dict[str, float] | None = None,
    gcs_port: int | None = None,
    python: str = sys.executable,
    **node: Any,
) -> Iterator[RayCluster]:
    """Start a cluster, and end it with all that it started.

    Args:
        folder: for Ray's files; its path must be short.
        nodes: besides the head, which has one core.
        token: what clients must show; None: nothing.
        dashboard_port: None: any that is free.
        environment: of the cluster's processes; the test's own by default.
        gcs_port: where nodes find the head; None: any that is free.
        scales_to: what the one node has that an autoscaler may add; None: there is no autoscaler.
        python: the interpreter of all of its processes.
        node: resources of each node, such as num_cpus, num_gpus.

    Raises:
        RuntimeError: it does not start; with the last of what it said.
        TimeoutError: it starts and takes no jobs.
    """
    auth = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token} if token else {}
    auth = auth or {"RAY_AUTH_MODE": "disabled"}
    options = {"nodes": nodes, "dashboard_port": dashboard_port or any_free_port(), "node": node}
    gcs = {"gcs_server_port": gcs_port or any_free_port()}
    scaling = autoscaling(folder, gcs["gcs_server_port"], scales_to) if scales_to else {}
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    quiet = {**QUIET_RAY, **NO_SPARE_WORKERS, **dict.fromkeys(ON_LOOPBACK, "1")}
    own = {"HOME": str(home), "RAY_TMPDIR": str(folder), **quiet, **auth}
    own |= ENVIRONMENT if scales_to else {}
    command = [python, "-m", "tests.ray_cluster"]
    command += [json.dumps({**options, "head": {**gcs, **scaling}})]
    environment = {**(environment or os.environ), **own}
    for _ in range(TRIES):
        with (folder / "cluster.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
        try:
            if found := said_by(process):
                await_jobs_api(found["dashboard"], auth)
                yield RayCluster(**found, pid=process.pid, environment=auth)
                return
        finally:
            end(process)
    raise RuntimeError((folder / "cluster.log").read_text()[-3_000:])


def said_by(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What a cluster that has started says of itself; nothing where it did not."""
    assert process.stdout
    for line in process.stdout:
        if line.startswith(b"{"):
            said: dict[str, Any] = json.loads(line)
            return said
    return {}


def await_jobs_api(url: str, auth: dict[str, str]) -> None:
    """Wait until the head takes jobs: its agent starts later than its dashboard.

    Raises:
        TimeoutError: it does not.
    """
    token = auth.get("RAY_AUTH_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        try:
            asked = urllib.request.Request(f"{url}/api/jobs/", headers=headers)
            with urllib.request.urlopen(asked, timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise TimeoutError(f"no Jobs API answers at {url}")


def main(options: dict[str, Any]) -> None:
    """Start the cluster and wait."""
    from ray.cluster_utils import Cluster

    def its_own() -> dict[str, int]:
        # Two clusters on one machine would else quarrel about the agents' default port.
        return {"dashboard_agent_listen_port": any_free_port(), "object_store_memory": STORE_BYTES}

    def folder_of(number: int) -> str:
        # Else each node would unpack the job's code anew where another one's workers are at home.
        return f"{os.environ['RAY_TMPDIR']}/{number}"

    port = options["dashboard_port"]
    dashboard = {"include_dashboard": True, "dashboard_host": "0.0.0.0", "dashboard_port": port}
    head = {"num_cpus": 1, **options["head"], **dashboard, **its_own()}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    node = {"num_cpus": 2, **options["node"]}
    # Whoever has a folder of his own has logs of his own, too.
    node |= {"include_log_monitor": True}
    nodes = [
        cluster.add_node(wait=False, **node, **its_own(), temp_dir=folder_of(number))
        for number in range(options["nodes"])
    ]
    cluster.wait_for_nodes(READY_SECONDS)
    started = cluster.head_node.all_processes
    pids = {name: processes[0].process.pid for name, processes in started.items()}
    raylets = [each.all_processes["raylet"][0].process.pid for each in nodes]
    found = {"address": cluster.address, "dashboard": f"http://127.0.0.1:{port}"}
    print(json.dumps({**found, "head": pids, "raylets": raylets}), flush=True)
    signal.pause()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
