"""What a job has left in its attempt's folder, and the result of one that has left none."""

from dataclasses import dataclass
from typing import Any

from tasks.clusters.running import RunningJob
from tasks.protocol.read_back import read_note
from tasks.ray_job.follower_heartbeat import STOPPED
from tasks.ray_job.job import Job

LAST_WORDS = 5
"""Lines of its log that the error shows for a job that is gone."""


@dataclass(frozen=True)
class Look:
    """What a job had left at one moment."""

    progress: dict[str, Any] | None = None
    """What it last said of itself; None before it has said anything."""
    result: dict[str, Any] | None = None
    """How it ended; None while it runs."""

    @classmethod
    def of(cls, job: Job) -> "Look":
        """What lies in the attempt's folder; the result first, since progress may be later.

        A result that is damaged is none: its job is gone, and counts as lost.
        """
        result = read_note(job.storage, job.result_file) or {}
        progress = read_note(job.storage, job.progress_file)
        return cls(progress or None, result if "error" in result else None)

    @property
    def queued_for(self) -> str | None:
        """What a job waits for that has not had its turn yet; None for all others."""
        is_queued = self.progress is not None and self.progress["state"] == "queued"
        return self.progress["waits_for"] if self.progress and is_queued else None

    def stage(self, stage: str) -> dict[str, Any]:
        """One stage's counts; empty before there are any."""
        return self.progress["stages"][stage] if self.progress else {}


def lost(job: Job, running: RunningJob) -> dict[str, Any]:
    """The result of a job that left none."""
    message = f"attempt {job.attempt} is gone and left no result; see {running.where}"
    last = running.log().strip().splitlines()[-LAST_WORDS:]
    said = "".join(f"\n  {line[:300]}" for line in last)
    message += f". The end of its log:{said}" if said else ""
    return {"state": "failed", "error": {"class": "JobLost", "message": message}}


def as_stopped(job: Job, result: dict[str, Any]) -> dict[str, Any]:
    """How a job ended; that of one which somebody stopped is no error of its own, to be retried."""
    if result["error"] is None or job.storage.stat(job.stopped_file) is None:
        return result
    return {"state": "failed", "error": {"class": "RunStopped", "message": STOPPED}}
