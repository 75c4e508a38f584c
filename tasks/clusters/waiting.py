"""A driver that starts its Ray, or joins one, while a run is planned.

Both take seconds, of a core each.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from tasks.clusters.driver import driver_environment, kill, launch
from tasks.clusters.own_ray import reached
from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.clusters import LocalCluster
from tasks.own_process import refuse_low_limits
from tasks.ray_job.connection import connection
from tasks.ray_job.job import Job
from tasks.ray_job.waiting import WAIT
from tasks.spec import BatchInferenceSpec
from tasks.temporary_folder import own_folder


@dataclass(frozen=True)
class WaitingDriver:
    """A driver without a job."""

    process: subprocess.Popen[str]
    log: Path
    surroundings: dict[str, Any]
    """What it has started with."""

    def tell(self, words: dict[str, Any]) -> None:
        """Write it a line; one that has ended hears nothing."""
        with suppress(BrokenPipeError):
            self.ear.write(json.dumps(words) + "\n")
            self.ear.flush()

    def leave(self) -> None:
        """Tell it nothing more."""
        with suppress(BrokenPipeError):  # over what one that has ended was told last
            self.ear.close()

    @property
    def ear(self) -> IO[str]:
        """Where it listens."""
        assert self.process.stdin
        return self.process.stdin


WAITING: list[WaitingDriver] = []
"""Of this process, one at most."""
LEAVE_SECONDS = 3.0
"""For a driver to take leave of a Ray that others use."""


@contextmanager
def driver_in_waiting(spec: BatchInferenceSpec) -> Iterator[None]:
    """Have a driver wait for the job of a run, where one on this machine is to run it.

    It is ended where no job has come, and ends by itself with the process that started it.
    """
    if isinstance(spec.cluster, LocalCluster):
        with suppress(InvalidSpec, Unreachable):  # the run will say so
            cluster = reached(spec.cluster)
            refuse_low_limits(cluster)
            WAITING.append(begin(spec.model_copy(update={"cluster": cluster})))
    try:
        yield
    finally:
        while WAITING:
            dismiss(WAITING.pop())


def begin(spec: BatchInferenceSpec) -> WaitingDriver:
    """Start a driver that is to wait."""
    log = own_folder() / f"waiting-{os.getpid()}.log"
    surroundings = surroundings_of(spec)
    process = launch([WAIT], log, env=driver_environment(spec), stdin=subprocess.PIPE)
    driver = WaitingDriver(process, log, surroundings)
    driver.tell(surroundings)
    return driver


def surroundings_of(spec: BatchInferenceSpec) -> dict[str, Any]:
    """What a driver must know before it has Ray, whose workers inherit it."""
    return {
        "ray": connection(spec, driver_environment(spec)),
        "working_dir": spec.environment.working_dir,
        "env_vars": spec.environment.env_vars,
    }


def taken(job: Job, log: Path) -> subprocess.Popen[str] | None:
    """The driver that waits, with a job now; None where none does that suits the job.

    Who ends this process before `let_go` ends it too: it stands nowhere yet that it runs.

    Args:
        job: what it is to do.
        log: where its output is to be found from now on.
    """
    if not WAITING:
        return None
    driver = WAITING[-1]
    suits = driver.surroundings == surroundings_of(job.spec)
    if not suits or driver.process.poll() is not None:
        WAITING.clear()
        dismiss(driver)
        return None
    driver.log.replace(log)
    driver.tell({"arguments": job.arguments, "environment": job.driver_env})
    driver.leave()
    return driver.process


def let_go() -> None:
    """Leave the driver that has taken a job to whoever finds that it runs."""
    WAITING.clear()


def dismiss(driver: WaitingDriver) -> None:
    """End a driver that is not needed, and what it has started."""
    driver.leave()
    if driver.surroundings["ray"]["address"] != "local":  # Ray would list it as one that failed
        with suppress(subprocess.TimeoutExpired):
            driver.process.wait(LEAVE_SECONDS)
    with suppress(psutil.NoSuchProcess):
        kill(psutil.Process(driver.process.pid))
    driver.process.wait()
    driver.log.unlink(missing_ok=True)
