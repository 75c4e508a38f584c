"""Who runs the flow, is killed, and started again: the command line, or a worker of Prefect's."""

import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tasks.spec_file import load_spec
from tests.chaos.matrix.clusters import kill_tree
from tests.chaos.matrix.prefect_api import PrefectApi
from tests.chaos.processes import MARK
from tests.chaos.session import BIN, Place

POOL = "matrix"
RUN_SECONDS = 300.0


class Orchestrator(Protocol):
    """Runs the flow."""

    def start(self) -> None:
        """Start it."""

    def kill_and_start(self) -> float:
        """SIGKILL it and start it again at once; when it was killed."""

    def wait(self) -> str | None:
        """Wait for its end; what went wrong."""

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""


@dataclass
class ByCommand:
    """`batch-inference run`."""

    place: Place
    spec: Path

    def start(self) -> None:
        """Start it."""
        self.run = self.place.start(self.spec)

    def kill_and_start(self) -> float:
        """SIGKILL it, and run the same again."""
        self.run.process.kill()
        self.run.wait()
        killed = time.time()
        self.start()
        return killed

    def wait(self) -> str | None:
        """Wait for its end."""
        code = self.run.wait(RUN_SECONDS)
        return f"exit code {code}: {self.run.errors()[-600:]}" if code else None

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self.run.is_alive


@dataclass
class ByWorker:
    """A flow run that a Prefect process worker picks up."""

    place: Place
    spec: Path
    flow_run: str = ""
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def api(self) -> PrefectApi:
        """The server."""
        return PrefectApi(self.place.environment["PREFECT_API_URL"])

    @property
    def environment(self) -> dict[str, str]:
        """Of all that is started here."""
        return {
            **self.place.environment,
            MARK: self.place.mark,
            "PREFECT_WORKER_QUERY_SECONDS": "1",
        }

    def start(self) -> None:
        """Deploy the flow and its automations, start a worker, and ask for a run."""
        self.call(sys.executable, "-m", "tests.chaos.matrix.deploy", POOL)
        self.start_worker()
        spec = load_spec(self.spec).model_dump(mode="json", by_alias=True)
        (deployment,) = self.api.post("deployments/filter", {"limit": 1})
        path = f"deployments/{deployment['id']}/create_flow_run"
        run: dict[str, Any] = self.api.post(path, {"parameters": {"spec": spec}})
        self.flow_run = run["id"]

    def start_worker(self) -> None:
        """Start a worker, which takes its flow runs with it when its tree is killed."""
        log = self.place.folder / f"worker{len(self.workers)}.log"
        command = [str(BIN / "prefect"), "worker", "start", "--pool", POOL, "--type", "process"]
        with log.open("wb") as output:
            self.workers.append(
                subprocess.Popen(command, stdout=output, stderr=output, env=self.environment)
            )

    def kill_and_start(self) -> float:
        """SIGKILL worker and flow, and start a worker.

        Nobody is left to say that the run has crashed: the automations do, and have it retried.
        """
        kill_tree(self.workers[-1].pid)
        self.workers[-1].wait()
        killed = time.time()
        self.start_worker()
        return killed

    def wait(self) -> str | None:
        """Wait for the run's end, and end the worker."""
        until = time.monotonic() + RUN_SECONDS
        while self.is_alive and time.monotonic() < until:
            time.sleep(0.3)
        kill_tree(self.workers[-1].pid)
        self.workers[-1].wait()
        state = self.api.state(self.flow_run)
        return None if state == "COMPLETED" else f"the flow run is {state}"

    @property
    def is_alive(self) -> bool:
        """Whether the run goes on; one that has crashed will."""
        return self.api.state(self.flow_run) not in ("COMPLETED", "FAILED", "CANCELLED")

    def call(self, *command: str) -> None:
        """Run a command, which must succeed."""
        done = subprocess.run(command, env=self.environment, capture_output=True, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr).decode()
            raise AssertionError(
                f"{' '.join(command)}: exit code {done.returncode}: {said[-2000:]}"
            )
