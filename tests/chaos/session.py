"""A session's folder and Prefect server, and each scenario's own place in them."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from shutil import copyfile
from typing import Any

from deployments.stack.ports import any_free_port
from flows.small_ray import end
from tests.chaos.processes import MARK, end_all

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
LOG = "CHAOS_LOG"
RUN_SECONDS = 600.0


@dataclass
class Run:
    """One call of `batch-inference run`."""

    process: subprocess.Popen[bytes]
    output: Path

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def wait(self, seconds: float = RUN_SECONDS) -> int:
        """Its exit code."""
        return self.process.wait(seconds)

    def report(self) -> dict[str, Any]:
        """The last line of its output."""
        found: dict[str, Any] = json.loads(self.output.read_text().splitlines()[-1])
        return found

    def errors(self) -> str:
        """What it said on standard error."""
        return self.output.with_suffix(".err").read_text()


@dataclass
class Place:
    """A scenario's folder; what is started here bears its mark."""

    folder: Path
    environment: dict[str, str]
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def mark(self) -> str:
        """What tells this scenario's processes from all others."""
        return str(self.folder)

    @property
    def log(self) -> Path:
        """Where the user code logs."""
        return self.folder / "log"

    def start(self, spec: Path, *arguments: str, **environment: str) -> Run:
        """Start a run."""
        output = self.folder / "runs" / f"{next(self.numbers):03d}.out"
        output.parent.mkdir(exist_ok=True)
        with output.open("wb") as out, output.with_suffix(".err").open("wb") as errors:
            process = subprocess.Popen(
                [str(BIN / "batch-inference"), "run", str(spec), "--json", *arguments],
                stdout=out,
                stderr=errors,
                env={**self.environment, MARK: self.mark, LOG: str(self.log), **environment},
            )
        return Run(process, output)

    def finish(self, spec: Path, *arguments: str, **environment: str) -> dict[str, Any]:
        """Run to the end, which must be a good one; return the report."""
        run = self.start(spec, *arguments, **environment)
        if run.wait():
            raise AssertionError(f"exit code {run.wait()}: {run.errors()[-3_000:]}")
        return run.report()

    def logged(self, folder: Path | None = None) -> int:
        """Rows that the user code was handed."""
        files = list((folder or self.log).glob("*.log"))
        # A line may be half written when its process is killed.
        return sum(int(n) for f in files for n in f.read_text().split("\n")[:-1])


@dataclass(frozen=True)
class Session:
    """What scenarios share."""

    folder: Path
    environment: dict[str, str]

    @contextmanager
    def place(self, name: str) -> Iterator[Place]:
        """A scenario's place; whatever still runs there at the end is killed."""
        folder = self.folder / name
        for part in ("in", "log"):
            (folder / part).mkdir(parents=True)
        place = Place(folder, self.environment)
        try:
            yield place
        finally:
            end_all(place.mark)


@contextmanager
def session(folder: Path, database: Path | None = None) -> Iterator[Session]:
    """One Prefect server for all runs: starting one for each would take most of the time.

    Args:
        folder: what is used lies in it.
        database: a file that the server begins with; None: it sets one up.
    """
    port = any_free_port()
    if database:
        (folder / "prefect").mkdir()
        copyfile(database, folder / "prefect/prefect.db")
    environment = {
        **os.environ,
        # Ray notes in its folder which cluster to join; others must not find ours there.
        "RAY_TMPDIR": str(folder),
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "ERROR",
    }
    command = [str(BIN / "prefect"), "server", "start", "--port", str(port), "--no-ui"]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        await_health(f"http://127.0.0.1:{port}/api/health", server)
        yield Session(folder, environment)
    finally:
        end(server)


def await_health(url: str, server: subprocess.Popen[bytes], seconds: float = 300.0) -> None:
    """Wait until the server answers.

    Raises:
        TimeoutError: it does not.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.3)
    raise TimeoutError(f"no Prefect server answers at {url}")
