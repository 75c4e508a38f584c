"""A job on a thread of this process."""

import threading
from dataclasses import dataclass

from tasks.ray_job.job import Job


@dataclass(frozen=True)
class InlineJob:
    """A thread; it cannot be stopped, ends with the process, and what it recorded stays good."""

    thread: threading.Thread
    where: str = "this process"

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self.thread.is_alive()

    def stop(self) -> None:
        """Nothing can be done."""

    def log(self) -> str:
        """The job speaks on this process's own output."""
        return ""


class Inline:
    """This process."""

    def start(self, job: Job) -> InlineJob:
        """Start the job's thread."""
        from tasks.ray_job.__main__ import run

        thread = threading.Thread(target=run, args=(job,), name=f"job-{job.run_id}", daemon=True)
        thread.start()
        return InlineJob(thread)

    def attach(self, job: Job) -> None:
        """A job is not found again: it ended with its process."""

    def was_started(self, job: Job) -> bool:
        """Nobody else can start it."""
        return True
