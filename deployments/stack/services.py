"""The stack's services: how each is started, and how one sees that it is ready."""

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deployments.stack.database import DATABASE_VARIABLES, server_database
from deployments.stack.ports import any_free_port
from deployments.stack.registration import is_online
from deployments.stack.state import HOST, POOL, State
from tasks.clusters.driver import QUIET_RAY
from tasks.clusters.own_ray import ON_LOOPBACK
from tasks.machine import cores

NOT_INHERITED = (
    "PREFECT_PROFILE",
    "PREFECT_PROFILES_PATH",
    "PREFECT_API_KEY",
    "PREFECT_SERVER_API_BASE_PATH",
    "RAY_ADDRESS",
    *DATABASE_VARIABLES,
)
"""Settings of a person's own that would lead the stack's processes elsewhere, or tell them more
than they need."""
LEASES_IN_FILES = "prefect.server.concurrency.lease_storage.filesystem"
"""Where a server notes which runs hold a deployment's places, each for five minutes at a time."""
QUERY_SECONDS = 2
"""Between two questions of the worker's for runs; Prefect's 10 are for a server that many ask."""
ROOM_FOR_TWO_RUNS = 6
"""Ray's cores at least; Ray only counts them, and runs may share what the machine has."""


@dataclass(frozen=True)
class Service:
    """A process of the stack that runs until the stack is taken down."""

    name: str
    command: list[str]
    environment: dict[str, str]
    is_ready: Callable[[], bool]


def environment_of(folder: Path, state: State) -> dict[str, str]:
    """What all of the stack's processes have in their environment."""
    inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    python = str(Path(sys.executable).parent)
    return {
        **inherited,
        **QUIET_RAY,
        "PATH": os.pathsep.join([python, os.environ.get("PATH", os.defpath)]),
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": state.api_url,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "STACK_FOLDER": str(folder),
        "STACK_MARK": state.mark,
    }


def prefect_server(folder: Path, state: State) -> Service:
    """Prefect's API and UI, with schedules and automations, on the database that is asked for."""
    command = ["prefect", "server", "start", "--host", HOST, "--port", str(state.prefect_port)]
    # Else any page that is open in the browser could speak to the API.
    pages = ",".join(f"http://{host}:{state.prefect_port}" for host in (HOST, "localhost"))
    environment = environment_of(folder, state) | {
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": pages,
        DATABASE_VARIABLES[0]: server_database(folder),
        # In memory, as else, they would be lost where it is started once more, and Prefect end all
        # runs of deployments with a limit that are at work then.
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": LEASES_IN_FILES,
    }
    return Service("server", command, environment, lambda: answers(f"{state.api_url}/health"))


def ray_head(folder: Path, state: State) -> Service:
    """A Ray head that takes jobs from those who show its token.

    It listens on loopback, as all of the stack does; other users of the machine lack the token.
    """
    options = {
        "port": any_free_port(),
        "num-cpus": max(ROOM_FOR_TWO_RUNS, cores()),
        "dashboard-host": HOST,
        "dashboard-port": state.ray_port,
        # Two clusters on one machine would else quarrel about the defaults.
        "dashboard-agent-listen-port": any_free_port(),
        "ray-client-server-port": any_free_port(),
        "temp-dir": state.ray_folder,
    }
    command = ["ray", "start", "--head", "--block", "--include-dashboard=true"]
    command += [f"--{name}={value}" for name, value in options.items()]
    auth = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": state.ray_token}
    # What it is given it hands on to the jobs, which need no Prefect.
    environment = {**environment_of(folder, state), **ON_LOOPBACK, **auth}
    jobs = f"{state.ray_url}/api/jobs/"
    return Service("ray", command, environment, lambda: answers(jobs, state.ray_token))


def prefect_worker(folder: Path, state: State) -> Service:
    """What starts the runs, each in a process of its own."""
    command = ["prefect", "worker", "start", "--pool", POOL, "--type", "process"]
    command += ["--name", state.worker_name]
    often = {"PREFECT_WORKER_QUERY_SECONDS": str(QUERY_SECONDS)}
    environment = environment_of(folder, state) | often
    return Service("worker", command, environment, lambda: is_online(state))


def answers(url: str, token: str | None = None) -> bool:
    """Whether a server answers well; one that asks who we are answers too."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5):
            return True
    except urllib.error.HTTPError as error:
        return error.code in (401, 403) and token is None
    except OSError:
        return False
