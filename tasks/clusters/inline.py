"""A job on threads of this process."""

import threading
from dataclasses import dataclass

from tasks.errors import RunStopped
from tasks.kinds.first_line import first_line
from tasks.ray_job.job import Job
from tasks.ray_job.stage_threads import StageThreads

STOP_SECONDS = 15.0


@dataclass(frozen=True)
class InlineJob:
    """A thread that watches over those of the stages; they end with the process at the latest."""

    thread: threading.Thread
    stages: StageThreads
    said: list[str]
    """What it could not leave as its result."""
    where: str = "this process"

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self.thread.is_alive()

    def stop(self) -> None:
        """Halt its stages, each after the call that it is in; what is recorded stays good."""
        self.stages.halt(RunStopped("the job was stopped; run again to continue where it stopped"))
        self.thread.join(STOP_SECONDS)

    def log(self) -> str:
        """Its last words, where it has left no result; else it speaks on this process's output."""
        return "".join(self.said)


class Inline:
    """This process."""

    def start(self, job: Job) -> InlineJob:
        """Start the job's thread."""
        stages, said = StageThreads(), list[str]()
        arguments, name = (job, stages, said), f"job-{job.run_id}"
        thread = threading.Thread(target=carry_out, args=arguments, name=name, daemon=True)
        thread.start()
        return InlineJob(thread, stages, said)

    def attach(self, job: Job) -> None:
        """A job is not found again: it ended with its process."""

    def was_started(self, job: Job) -> bool:
        """Nobody else can start it."""
        return True


def carry_out(job: Job, stages: StageThreads, said: list[str]) -> None:
    """Run a job; what has ended it is told by its result, and kept by nobody.

    The next attempt, and all later jobs of this process, have their models to load.

    Args:
        job: what to do.
        stages: its threads.
        said: is told what has ended it where the result cannot be stored, as on a full disk.
    """
    from tasks.ray_job.driver import run

    try:
        run(job, stages)
    except Exception as error:
        said += lines_of(error)
    finally:
        stages.forget()


def lines_of(error: BaseException) -> list[str]:
    """An error in a line, after those in whose handling it came up."""
    lines = list[str]()
    at: BaseException | None = error
    while at is not None:
        lines.append(f"{type(at).__name__}: {first_line(at)}\n")
        at = at.__context__
    return [*dict.fromkeys(reversed(lines))]
