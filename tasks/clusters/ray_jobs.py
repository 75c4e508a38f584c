"""A job on a Ray cluster elsewhere, submitted through its Jobs API."""

import json
import shlex
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.clusters.driver import QUIET_RAY
from tasks.clusters.ray_api import RayApi
from tasks.clusters.shipped import NOT_SHIPPED, data_below
from tasks.errors import Unreachable
from tasks.ray_job.cluster_capacity import gpus_of_replica
from tasks.ray_job.follower_heartbeat import has_result, leave_sign
from tasks.ray_job.gpu_queue import GPUS, LIVE, claim_of
from tasks.ray_job.job import Job
from tasks.ray_job.raylet import end_with_raylet

STOP_SECONDS = 12.0
END_SECONDS = 20.0
"""For a driver that has left its result, and for Ray to notice that it is gone."""
STATUS_EVERY_SECONDS = 0.3
END_WITH_RAYLET = f"{end_with_raylet.__module__}.{end_with_raylet.__name__}"
OUR_CODE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class RayJob:
    """A job of a cluster, by its submission id."""

    api: RayApi
    job: Job

    @property
    def id(self) -> str:
        """Its submission id."""
        return self.job.id

    @property
    def where(self) -> str:
        """The job's page in Ray's dashboard."""
        return f"{self.api.shown}/#/jobs/{self.id}"

    def is_alive(self) -> bool | None:
        """Whether it waits or runs; None where the cluster does not answer."""
        try:
            return self.api.status(self.id) in LIVE
        except Unreachable:
            return None

    def log(self) -> str:
        """What driver and workers have said."""
        try:
            return self.api.log(self.id)
        except Unreachable:  # or a cluster in its place does not know the job
            return ""

    def stop(self) -> None:
        """Ask it to stop and wait until it has; where its cluster does not answer, it finds word.

        One that has left its result ends by itself: else Ray would show what went well as stopped.
        """
        if has_result(self.job) and self.ends_within(END_SECONDS):
            return
        try:
            self.api.stop(self.id)
        except Unreachable:
            with suppress(OSError):  # it ends by itself when it has had no sign for long enough
                leave_sign(self.job, has_left=True)
            return
        self.ends_within(STOP_SECONDS)

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end; whether it came."""
        until = time.monotonic() + seconds
        while self.is_alive():
            if time.monotonic() >= until:
                return False
            time.sleep(STATUS_EVERY_SECONDS)
        return True


@dataclass(frozen=True)
class RayJobs:
    """A cluster that runs already."""

    api: RayApi
    python: str = "python"

    def start(self, job: Job) -> RayJob:
        """Submit a job under an id that says which it is: of two who submit it, both get one."""
        running = RayJob(self.api, job)
        # Without -P the user's folder would come first, and a `tasks` in it would hide ours.
        command = [self.python, "-P", "-m", "tasks.ray_job", *job.arguments]
        code = self.api.upload(str(OUR_CODE), NOT_SHIPPED)
        self.api.submit(running.id, shlex.join(command), runtime_env(job, code), self.metadata(job))
        marker = {"submission_id": running.id, "address": self.api.shown}
        try:
            job.storage.write(submitted(job), json.dumps(marker).encode())
        except OSError as error:  # whoever asks again finds the job
            raise Unreachable(f"sink.path: the storage did not take {submitted(job)}") from error
        return running

    def metadata(self, job: Job) -> dict[str, str]:
        """What other jobs must know of it, where they share the cluster's GPUs out.

        Raises:
            InvalidSpec: the limit allows fewer replicas than the job is to start with.
        """
        if job.max_gpus is None:
            return {}
        # `auto` is settled before, but for a cluster that has GPUs.
        gpus = gpus_of_replica(job.spec.resources, [{"GPU": 1.0}])
        return {GPUS: f"{claim_of(job.spec, job.max_gpus, gpus):g}"}

    def attach(self, job: Job) -> RayJob | None:
        """The job, if it waits or runs."""
        status = self.api.status(job.id)
        return RayJob(self.api, job) if status in LIVE else None

    def was_started(self, job: Job) -> bool:
        """Whether it has been submitted, here or to a cluster that is no more."""
        known = self.api.status(job.id) is not None
        return known or job.storage.stat(submitted(job)) is not None

    def remembers(self, job: Job) -> bool:
        """Whether it knows a job of that name that is over."""
        status = self.api.status(job.id)
        return status is not None and status not in LIVE


def submitted(job: Job) -> str:
    """Says that the job was submitted; written after it was."""
    return f"{job.folder}/submitted.json"


def runtime_env(job: Job, code: str) -> dict[str, Any]:
    """What Ray brings to the cluster: this project, the user's code where there is any.

    Args:
        job: the job.
        code: URI of this project's package, sent by itself: what is not to be taken from the
            user's folder may have a name that a folder of ours has too.
    """
    environment, folder = job.spec.environment, Path(job.spec.environment.working_dir)
    sent = {"working_dir": str(folder), "excludes": [*NOT_SHIPPED, *data_below(folder, job)]}
    return {
        "py_modules": [code],
        **(sent if job.spec.runs_own_code else {}),
        **({"pip": environment.pip} if environment.pip else {}),
        "env_vars": {**QUIET_RAY, **environment.env_vars, **job.driver_env},
        "worker_process_setup_hook": END_WITH_RAYLET,
    }
