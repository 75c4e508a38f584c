"""A job in a process of its own on this machine, which outlives the one that started it."""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISLNK

import psutil

from tasks.errors import InvalidSpec
from tasks.lease import Holder, load_holder, save_holder
from tasks.ray_job.job import Job

STOP_SECONDS = 10.0


@dataclass(frozen=True)
class LocalJob:
    """A driver process."""

    holder: Holder
    is_alive: Callable[[], bool]
    log_file: Path

    @property
    def where(self) -> str:
        """Its log file."""
        return str(self.log_file)

    def log(self) -> str:
        """What it has said so far."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def stop(self) -> None:
        """End the driver and the processes it started: first asked, then made to."""
        if not self.holder.is_alive():
            return
        process = psutil.Process(self.holder.pid)
        tree = [*process.children(recursive=True), process]
        process.terminate()
        _, alive = psutil.wait_procs([process], timeout=STOP_SECONDS)
        for each in [*alive, *tree]:
            if each.is_running():
                each.kill()
        self.is_alive()  # collects the exit code, where the process is a child of ours


class Local:
    """This machine: a driver that starts a Ray of its own, or joins one by address."""

    def start(self, job: Job) -> LocalJob:
        """Start a driver."""
        log = log_file(job)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tasks.ray_job", *job.arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=driver_environment(job),
            )
        holder = Holder.of(process.pid)
        save_holder(job.storage, driver_file(job), holder)
        return LocalJob(holder, lambda: process.poll() is None, log)

    def attach(self, job: Job) -> LocalJob | None:
        """The driver, if it lives."""
        holder = load_holder(job.storage, driver_file(job))
        if holder is None or not holder.is_alive():
            return None
        return LocalJob(holder, holder.is_alive, log_file(job))

    def was_started(self, job: Job) -> bool:
        """Whether a driver has been started."""
        return job.storage.stat(driver_file(job)) is not None


def driver_file(job: Job) -> str:
    """Says which process runs the job."""
    return f"{job.folder}/driver.json"


def log_file(job: Job) -> Path:
    """Where the driver's output goes."""
    return own_folder() / f"{job.run_id}-{job.attempt}.log"


def own_folder() -> Path:
    """Where drivers find code and leave logs: a folder to which nobody else writes.

    Raises:
        InvalidSpec: somebody else made it, who could put code of his own there.
    """
    folder = Path(tempfile.gettempdir()) / f"prefect-ray-data-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or S_ISLNK(found.st_mode) or found.st_mode & 0o022:
        problem = "is not a folder of yours alone; remove it, or set TMPDIR to another place"
        raise InvalidSpec.at("TMPDIR", str(folder), problem)
    return folder


def driver_environment(job: Job) -> dict[str, str]:
    """The driver's environment: ours, with this project and the user's code on the path."""
    paths = [own_path(), job.spec.environment.working_dir, os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        **QUIET_RAY,
        **job.spec.environment.env_vars,
        **job.environment,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


def own_path() -> str:
    """A folder that holds this project's `tasks` and nothing else, to go first on the path.

    Users have folders called `tasks` too, and theirs must not hide ours from Ray's workers; nor
    must what is installed beside ours hide their other modules.
    """
    package = Path(__file__).resolve().parents[1]
    name = hashlib.sha256(str(package).encode()).hexdigest()[:16]
    link = own_folder() / name / package.name
    link.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        link.symlink_to(package)
    return str(link.parent)


QUIET_RAY = {
    # Without these Ray looks for uv, reports usage, and prints banners.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TOKENIZERS_PARALLELISM": "false",
    # Ray would look for new logs ten times a second, and not twice.
    "RAY_LOG_MONITOR_MANY_FILES_THRESHOLD": "0",
}
