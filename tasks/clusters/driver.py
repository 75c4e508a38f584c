"""The process that runs a job on this machine: how it is started and ended, and what it finds."""

import hashlib
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tasks.clusters.own_ray import ON_LOOPBACK, is_on_loopback
from tasks.machine import memory
from tasks.ray_job.ending import remove_sessions, session_folders
from tasks.ray_job.job import Job
from tasks.spec import BatchInferenceSpec
from tasks.temporary_folder import own_folder

STOP_SECONDS = 10.0
KEPT_SECONDS = 30 * 24 * 3600.0
"""A log that nobody has written to for so long is removed: each run leaves one, or several."""
OBJECT_STORE_LIMIT = "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES"
SHARE_OF_OBJECTS, MOST_OBJECTS = 0.3, 200 * 10**9
"""Of the memory, and in bytes, as Ray takes it; but of a systemd unit's or a batch job's it knows
nothing."""


def launch(arguments: list[str], log: Path, **given: Any) -> subprocess.Popen[str]:
    """Start a driver in a session of its own, so that it outlives whoever starts it.

    Args:
        arguments: the driver's.
        log: where its output goes, after what is there.
        given: its environment and what it reads.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    remove_old_logs(log.parent)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tasks.ray_job", *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
            **given,
        )
    # Else it would stay in the system's table as long as this process: it may end after its job.
    threading.Thread(target=process.wait, name="driver's end", daemon=True).start()
    return process


def end(process: psutil.Process) -> None:
    """End a driver and the processes it started: first asked, then made to."""
    tree = [process]
    with suppress(psutil.NoSuchProcess):  # it may end by itself at any moment, and they with it
        tree += process.children(recursive=True)
        process.terminate()
    psutil.wait_procs([process], timeout=STOP_SECONDS)
    for each in tree:
        with suppress(psutil.NoSuchProcess):
            each.kill()


def kill(process: psutil.Process) -> None:
    """End a driver that has nothing to lose, and the processes it started, at once."""
    process.suspend()  # else it could start others meanwhile
    children = process.children(recursive=True)
    sessions = session_folders(children)
    for each in [*children, process]:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    remove_sessions(sessions)


def log_file(job: Job) -> Path:
    """Where the driver's output goes."""
    return own_folder() / f"{job.id}.log"


def remove_old_logs(folder: Path) -> None:
    """Remove the logs of drivers that are long over."""
    oldest = time.time() - KEPT_SECONDS
    for log in folder.glob("*.log"):
        with suppress(OSError):  # others who start a driver remove it too
            if log.stat().st_mtime < oldest:
                log.unlink()


def driver_environment(spec: BatchInferenceSpec) -> dict[str, str]:
    """The driver's environment: ours, with this project and the user's code first on the path."""
    given = spec.environment.env_vars
    paths = [own_path(), spec.environment.working_dir]
    paths += [each.get("PYTHONPATH", "") for each in (given, os.environ)]
    return {
        OBJECT_STORE_LIMIT: str(min(MOST_OBJECTS, int(SHARE_OF_OBJECTS * memory()))),
        **os.environ,
        **QUIET_RAY,
        **(ON_LOOPBACK if is_on_loopback(spec.cluster) else {}),
        **given,
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
    # Ray would look for new logs ten times a second, and not twice.
    "RAY_LOG_MONITOR_MANY_FILES_THRESHOLD": "0",
    # Ray would end workers that had nothing to do for a second: of a job over many small files nine
    # instead of two were started, for two seconds of a core each.
    "RAY_idle_worker_killing_time_threshold_ms": "60000",
    # Ray would run a task for ever that it kills each time since memory runs out: of a reader, or a
    # step, nobody would be told before nothing has moved for long, nor why.
    "RAY_task_oom_retries": "5",
    # The head would remember a hundred thousand tasks for its dashboard: of small batches, each of
    # them five tasks, 400 MiB in time. A job's own has no dashboard.
    "RAY_task_events_max_num_task_in_gcs": "1000",
}
