"""A whole stack on this machine: Prefect's server, a worker, a Ray head, the deployments."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deployments.deploying import deploy
from deployments.stack.database import DATABASE_VARIABLES, given_database, shown
from deployments.stack.demo_data import prepare_data
from deployments.stack.lost_runs import crash_lost_runs
from deployments.stack.ports import free_port_from, is_free
from deployments.stack.processes import ServiceFailedError, await_ready, end, end_marked, start
from deployments.stack.registration import prefect_client, register
from deployments.stack.services import (
    Service,
    environment_of,
    prefect_server,
    prefect_worker,
    ray_head,
)
from deployments.stack.state import ROOT, State, load_state, save_state, state_file
from flows.proxies import pass_proxies_by
from tasks.lease import Holder

PREFECT_PORT = 4200
RAY_PORT = 8265
SERVICES = ("worker", "ray", "server")
RUNS_END_SECONDS = 20.0
"""For the worker to stop its runs and tell the server what became of them."""
END_SECONDS = 5.0
Tell = Callable[[str], None]


@dataclass
class Stack:
    """A stack that is being brought up, or is up."""

    folder: Path
    state: State
    tell: Tell
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """Services that this very process has started."""

    @property
    def ui_url(self) -> str:
        """Prefect's UI."""
        return self.state.ui_url

    @property
    def api_url(self) -> str:
        """Prefect's API."""
        return self.state.api_url

    @property
    def ray_url(self) -> str:
        """Ray's dashboard and Jobs API."""
        return self.state.ray_url

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that is to belong to the stack."""
        return environment_of(self.folder, self.state)

    def launch(self, service: Service) -> None:
        """Start a service, unless it runs."""
        if self.state.is_alive(service.name):
            return
        self.tell(f"starting {service.name}")
        process = start(service, self.log(service.name))
        self.children.append(process)
        self.state.processes[service.name] = Holder.of(process.pid)
        save_state(self.folder, self.state)

    def await_ready(self, service: Service) -> None:
        """Wait until a service does its work; one that ends is started once more.

        On a machine that is busy or cold Ray gives up its own start after 30 s.
        """
        log = self.log(service.name)
        try:
            await_ready(service, self.state.processes[service.name], log)
        except ServiceFailedError:
            if self.state.is_alive(service.name):
                raise
            self.launch(service)
            await_ready(service, self.state.processes[service.name], log)

    def log(self, service: str) -> Path:
        """What a service says."""
        return self.folder / "logs" / f"{service}.log"


def up(folder: Path, tell: Tell = print) -> Stack:
    """Start what does not run of a stack, and bring the deployments to it as they are now.

    Args:
        folder: the stack's own, with its database, data and logs; made if need be.
        tell: is told what is going on.

    Raises:
        ServiceFailedError: a service did not start; what was started by this call is ended.
        DeployFailedError: a deployment is not what Prefect takes.
        InvalidSpec: a spec or prefect.yaml is wrong.
        Unreachable: the server does not let us in.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    pass_proxies_by()
    stack = Stack(folder, known_or_new(folder), tell)
    before = dict(stack.state.processes)
    try:
        bring_up(stack)
    except BaseException:
        started = {name: it for name, it in stack.state.processes.items() if before.get(name) != it}
        end(list(started.values()), END_SECONDS)
        reap(stack)
        raise
    return stack


def known_or_new(folder: Path) -> State:
    """The state of the stack that is up, or was; its ports and database stay what they were.

    Raises:
        ServiceFailedError: somebody else has taken the port of a service that is gone, or another
            database is asked for.
    """
    database, state = asked_for(), load_state(folder)
    if state is None:
        return State(
            prefect_port=free_port_from(PREFECT_PORT),
            ray_port=free_port_from(RAY_PORT),
            database=database,
        )
    if state.database != database:
        of, now = state.database or "its own file", database or "its own file"
        raise ServiceFailedError(
            f"server: the running stack uses {of}, but {DATABASE_VARIABLES[0]} asks for {now}: "
            "make down, then make up; or set it back"
        )
    for service, port in (("server", state.prefect_port), ("ray", state.ray_port)):
        if not state.is_alive(service) and not is_free(port):
            taken = f"{service}: another process listens on its port {port} now"
            raise ServiceFailedError(f"{taken}: make down, then make up to get another port")
    return state


def asked_for() -> str:
    """The database that the environment asks for, without a password.

    Raises:
        ServiceFailedError: Prefect has no such ones.
    """
    try:
        return shown(given_database())
    except ValueError as error:
        raise ServiceFailedError(f"server: {error}") from None


def bring_up(stack: Stack) -> None:
    """The services, the data, and what Prefect has to know; side by side where they can be."""
    server, ray = prefect_server(stack.folder, stack.state), ray_head(stack.folder, stack.state)
    worker = prefect_worker(stack.folder, stack.state)
    if stack.state.database:
        stack.tell(f"Prefect's database is {stack.state.database}")
    stack.launch(server)
    stack.launch(ray)
    prepare_data(stack.folder, stack.tell)
    stack.await_ready(server)
    register(stack.state)
    if not stack.state.is_alive("worker"):
        crash_lost_runs(stack.state, stack.tell)
    stack.launch(worker)
    stack.tell("deploying")
    with prefect_client(stack.state) as client:
        deploy(client, stack.environment, folder=ROOT, tell=stack.tell)
    stack.await_ready(worker)
    stack.await_ready(ray)


def down(folder: Path, tell: Tell = print) -> bool:
    """End a stack's processes and no others; its database, data and logs stay.

    Returns:
        Whether there was one.
    """
    folder = folder.resolve()
    state = load_state(folder)
    if state is None:
        return False
    tell("ending the worker and its runs")
    worker = [state.processes["worker"]] if "worker" in state.processes else []
    end(worker, RUNS_END_SECONDS)
    tell("ending Ray and Prefect's server")
    end(list(state.processes.values()), END_SECONDS)
    end_marked(state.mark)
    shutil.rmtree(state.ray_folder, ignore_errors=True)
    state_file(folder).unlink()
    return True


def reap(stack: Stack) -> None:
    """Collect the exit codes of children that were ended."""
    for process in stack.children:
        process.wait()


@contextmanager
def running_stack(folder: Path, tell: Tell = print) -> Iterator[Stack]:
    """A stack for as long as the block lasts, on ports that are free."""
    stack = up(folder, tell)
    try:
        yield stack
    finally:
        down(folder, tell)
        reap(stack)
