"""A job that is told to stop, or that nobody follows any more, stops itself: it may hold GPUs."""

import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field

from tasks.errors import Orphaned, RunStopped
from tasks.protocol.read_back import json_object
from tasks.ray_job.job import Job

LOOK_EVERY_SECONDS = 10.0
HAS_LEFT = "has_left"
"""Of a sign: it is the last one, left where the job's cluster could not be asked to stop it."""
STOPPED = "somebody stopped the job; run again to go on where it stopped"


@dataclass
class Followed:
    """Watches for signs of a follower, on this process's own clock."""

    job: Job
    seen: bytes = b""
    since: float = field(default_factory=time.monotonic)
    looked: float = 0.0

    def check(self) -> None:
        """Called often; looks now and then.

        Raises:
            RunStopped: somebody has left word that it is to stop.
            Orphaned: nobody has left a sign for `timeouts.orphan_seconds`, or the last one says
                that nobody follows any more.
        """
        now, limit = time.monotonic(), self.job.spec.timeouts.orphan_seconds
        if now - self.looked < min(LOOK_EVERY_SECONDS, limit / 4):
            return
        self.looked = now
        refuse_if_stopped(self.job)  # by somebody whom its cluster may not have answered
        sign = self.seen
        with suppress(OSError):
            sign = self.job.storage.read(self.job.followed_file)
        if sign != self.seen:
            self.seen, self.since = sign, now
            if has_left(sign):
                raise Orphaned("the run that followed this job has ended; run it again to continue")
        if now - self.since > limit:
            raise Orphaned(
                f"no run has followed this job for timeouts.orphan_seconds {limit:g}; run it "
                "again to continue where it stopped"
            )


def has_left(sign: bytes) -> bool:
    """Whether a sign is the last one; one that is damaged is a sign all the same."""
    try:
        return bool(json_object(sign).get(HAS_LEFT))
    except ValueError:
        return False


def leave_sign(job: Job, *, has_left: bool = False) -> None:
    """Say that somebody follows a job, or for the last time that nobody does any more.

    Raises:
        OSError: the output's storage does not answer.
    """
    who = {"host": socket.gethostname(), "pid": os.getpid()}
    sign = {"at": time.time(), **who, HAS_LEFT: has_left}
    job.storage.write(job.followed_file, json.dumps(sign).encode())


def has_result(job: Job) -> bool:
    """Whether a job has written all that it will; not where its storage does not answer."""
    try:
        return job.storage.stat(job.result_file) is not None
    except OSError:
        return False


def refuse_if_stopped(job: Job) -> None:
    """End a job that somebody else has stopped.

    Raises:
        RunStopped: its mark is there.
    """
    with suppress(OSError):  # a storage that is away for a moment is asked again
        if job.storage.stat(job.stopped_file):
            raise RunStopped(STOPPED)
