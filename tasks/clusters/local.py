"""A job in a process of its own on this machine, which outlives the one that started it."""

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tasks.clusters.driver import STOP_SECONDS, driver_environment, end, launch, log_file
from tasks.clusters.waiting import let_go, taken
from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.clusters import LocalCluster
from tasks.lease import Holder, is_at_work, load_holder, save_holder
from tasks.own_process import refuse_full_disk, refuse_low_limits
from tasks.ray_job.follower_heartbeat import LOOK_EVERY_SECONDS, has_result, leave_sign
from tasks.ray_job.job import Job

WORD_SECONDS = LOOK_EVERY_SECONDS + STOP_SECONDS
"""In which a driver finds word, and ends what it has started."""
RESULT_EVERY_SECONDS = 0.5


@dataclass(frozen=True)
class LocalJob:
    """A driver process."""

    job: Job
    holder: Holder
    is_alive: Callable[[], bool | None]
    """None where nobody can say, as of one on another machine: what it writes shows that."""

    @property
    def where(self) -> str:
        """Its log file."""
        return str(log_file(self.job))

    def log(self) -> str:
        """What it has said so far."""
        file = log_file(self.job)
        return file.read_text(errors="replace") if file.exists() else ""

    def stop(self) -> None:
        """End the driver and the processes it started: first asked, then made to.

        One on another machine ends by itself as soon as it finds that nobody follows it any more:
        here its pid is another's. One of another user, who shares the output, is given time to find
        word that it is to stop.
        """
        if not self.holder.is_here:
            return self.leave()
        if not self.holder.is_alive():
            return
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.holder.pid)
            try:
                end(process)
            except psutil.AccessDenied:
                psutil.wait_procs([process], timeout=WORD_SECONDS)

    def leave(self) -> None:
        """Say that nobody follows it any more, and give it time to find that."""
        if has_result(self.job):
            return
        with suppress(OSError):  # then it ends when it has had no sign for long enough
            leave_sign(self.job, has_left=True)
        until = time.monotonic() + WORD_SECONDS
        while not has_result(self.job) and time.monotonic() < until:
            time.sleep(RESULT_EVERY_SECONDS)


class Local:
    """This machine: a driver that starts a Ray of its own, or joins one by address."""

    def start(self, job: Job) -> LocalJob:
        """Start a driver, or take the one that waits for this job.

        Raises:
            Unreachable: it cannot be noted that it runs.
        """
        log = log_file(job)
        process = taken(job, log) or started(job, log)
        holder = Holder.of(process.pid)
        try:
            save_holder(job.storage, driver_file(job), holder)
        except OSError as error:  # nobody would find it, and another one would be started
            with suppress(psutil.NoSuchProcess):
                end(psutil.Process(process.pid))
            problem = f"sink.path: the storage did not take {driver_file(job)} ({error})"
            raise Unreachable(problem) from error
        let_go()
        return LocalJob(job, holder, lambda: process.poll() is None)

    def attach(self, job: Job) -> LocalJob | None:
        """The driver, if it lives."""
        path = driver_file(job)
        holder = load_holder(job.storage, path)
        if holder is None or not is_at_work(job.storage, path, holder):
            return None
        return LocalJob(job, holder, lambda: holder.is_alive() if holder.is_here else None)

    def was_started(self, job: Job) -> bool:
        """Whether a driver has been started."""
        return job.storage.stat(driver_file(job)) is not None


def started(job: Job, log: Path) -> subprocess.Popen[str]:
    """A driver for a job.

    Raises:
        InvalidSpec: a limit is too low for the Ray that it would start.
        Unreachable: there is no room for that Ray's files.
    """
    refuse_low_limits(job.spec.cluster)
    if isinstance(job.spec.cluster, LocalCluster) and job.spec.cluster.address is None:
        try:
            refuse_full_disk(job.spec)
        except InvalidSpec as error:  # there was when the run was planned, and may be again
            raise Unreachable(error.message) from error
    log.unlink(missing_ok=True)  # of a run of the same name, whose output was deleted since
    environment = driver_environment(job.spec) | job.driver_env
    return launch(job.arguments, log, env=environment, stdin=subprocess.DEVNULL)


def driver_file(job: Job) -> str:
    """Says which process runs the job."""
    return f"{job.folder}/driver.json"
