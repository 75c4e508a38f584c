"""Where a job runs: start it, see whether it lives, stop it."""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from tasks.lease import Holder, load_holder, save_holder
from tasks.ray_job.job import Job
from tasks.spec import InlineCluster

STOP_SECONDS = 10.0


@dataclass(frozen=True)
class RunningJob:
    """A job that was started or attached to."""

    is_alive: Callable[[], bool]
    stop: Callable[[], None]
    log: Path | None = None
    """Where its output goes, where that is on this machine."""


def start(job: Job) -> RunningJob:
    """Start a job where its spec says."""
    if isinstance(job.spec.cluster, InlineCluster):
        return start_inline(job)
    return start_driver(job)


def attach(job: Job) -> RunningJob | None:
    """The job where it still runs; None where it does not."""
    holder = load_holder(job.storage, driver_file(job))
    if holder is None or not holder.is_alive():
        return None
    return RunningJob(holder.is_alive, lambda: stop_process(holder))


def driver_file(job: Job) -> str:
    """Says which process runs the job."""
    return f"{job.folder}/driver.json"


def start_inline(job: Job) -> RunningJob:
    """The job on a thread of this process."""
    from tasks.ray_job.__main__ import run

    thread = threading.Thread(target=run, args=(job,), name=f"job-{job.run_id}", daemon=True)
    thread.start()
    # A thread cannot be stopped: it ends with the process, and what it has recorded stays good.
    return RunningJob(thread.is_alive, lambda: None)


def start_driver(job: Job) -> RunningJob:
    """The job in a process of its own, which outlives this one."""
    log = Path(tempfile.gettempdir()) / "prefect-ray-data" / f"{job.run_id}-{job.attempt}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    url = job.storage.filesystem.unstrip_protocol(f"{job.folder}/job.json")
    options = json.dumps(job.spec.sink.storage_options)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tasks.ray_job", url, options],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=driver_environment(job),
        )
    holder = Holder.of(process.pid)
    save_holder(job.storage, driver_file(job), holder)
    return RunningJob(lambda: process.poll() is None, lambda: stop_process(holder), log)


def driver_environment(job: Job) -> dict[str, str]:
    """The driver's environment: ours, with the user's code and this project on the path."""
    here = str(Path(__file__).resolve().parent.parent)
    paths = [job.spec.environment.working_dir, here, os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        **job.spec.environment.env_vars,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        # Without these Ray looks for uv, reports usage, and prints banners.
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "TOKENIZERS_PARALLELISM": "false",
    }


def stop_process(holder: Holder) -> None:
    """End a driver and the processes it started: first asked, then made to."""
    if not holder.is_alive():
        return
    process = psutil.Process(holder.pid)
    tree = [*process.children(recursive=True), process]
    process.terminate()
    _, alive = psutil.wait_procs([process], timeout=STOP_SECONDS)
    for each in [*alive, *tree]:
        if each.is_running():
            each.kill()
