"""What every place where jobs run can do: start one, find it again, say how it is, stop it."""

from contextlib import suppress
from typing import Protocol, runtime_checkable

from tasks.errors import Unreachable
from tasks.ray_job.job import Job


class RunningJob(Protocol):
    """A job that was started, or found running."""

    def is_alive(self) -> bool | None:
        """Whether it still runs; None where nobody can say, since its cluster does not answer."""

    def stop(self) -> None:
        """End it, and wait until it has ended."""

    def log(self) -> str:
        """What it has said so far; empty where that cannot be had."""

    @property
    def where(self) -> str:
        """Where its log and its cluster's page are, for a person."""


class Cluster(Protocol):
    """A place where jobs run."""

    def start(self, job: Job) -> RunningJob:
        """Start a job; of one that runs already, attach to it.

        Raises:
            Unreachable: the cluster does not answer.
        """

    def attach(self, job: Job) -> RunningJob | None:
        """The job where it still runs; None where it does not.

        Raises:
            Unreachable: the cluster does not answer.
        """

    def was_started(self, job: Job) -> bool:
        """Whether the job has ever been started; one that never was can be started as it is."""


@runtime_checkable
class MadeForRuns(Protocol):
    """A place that makes something for each run alone, to be ended with the run."""

    def renew(self, run_id: str) -> None:
        """Say that somebody follows the run; called often, raises nothing."""

    def release(self, run_id: str) -> None:
        """End what was made for the run; nothing where there is nothing.

        Raises:
            Unreachable: nobody could be asked.
        """


@runtime_checkable
class Remembering(Protocol):
    """A place that keeps what it knows of a job after its end, and takes no other of its name."""

    def remembers(self, job: Job) -> bool:
        """Whether it knows a job of that name that is over, as of an output that was deleted.

        Raises:
            Unreachable: it does not answer.
        """


def is_remembered(cluster: Cluster, job: Job) -> bool:
    """Whether a job's name is taken for good; not where nobody can say."""
    if isinstance(cluster, Remembering):
        with suppress(Unreachable):
            return cluster.remembers(job)
    return False


def renew(cluster: Cluster, run_id: str) -> None:
    """A run is followed: let live what was made for it alone, where there is any."""
    if isinstance(cluster, MadeForRuns):
        cluster.renew(run_id)
