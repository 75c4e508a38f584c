"""How long to wait for what, on this process's monotonic clock."""

import errno
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from tasks.access import access_told
from tasks.errors import NoProgress, RunTimedOut, Unreachable
from tasks.kinds.places import refuse_no_bucket
from tasks.protocol.client_errors import number_of, plain
from tasks.protocol.storage import open_storage
from tasks.ray_job.counts import STAGES, handed_on, moves, through
from tasks.spec import BatchInferenceSpec

MAX_BACKOFF_SECONDS = 60.0
NO_BUCKET = re.compile("NoSuchBucket|ContainerNotFound")
"""What S3 and Azure call it."""
FULL = "the disk is full, free some space"
OF_DISKS = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EROFS: "the disk is read-only, mount it writable",
}
"""What it means that a disk says a number."""
T = TypeVar("T")


def backoff_seconds(attempt: int) -> float:
    """How long to wait before another attempt: twice as long each time, and by chance.

    Many runs whose cluster came back would else ask it for everything in the same instant.
    """
    longest = min(MAX_BACKOFF_SECONDS, 2.0 ** min(attempt - 1, 32))
    return random.uniform(longest / 2, longest)


def until_reachable(
    ask: Callable[[], T],
    seconds: float,
    tell: Callable[[str], object],
    pause: Callable[[float], object] | None = None,
) -> T:
    """Ask until there is an answer.

    Args:
        ask: asks once.
        seconds: how long nobody may answer.
        tell: is told, once, that nobody does and what is waited for.
        pause: sleeps between two questions, for those who may be woken.

    Raises:
        Unreachable: there was none for so long.
    """
    until = time.monotonic() + seconds
    tried = 0
    while True:
        try:
            return ask()
        except Unreachable as error:
            tried += 1
            left = until - time.monotonic()
            if left <= 0:
                raise
            if tried == 1:
                tell(f"{error}; retrying for at most {seconds:.0f} s")
            (pause or time.sleep)(min(left, backoff_seconds(tried)))


@contextmanager
def storage_of_output() -> Iterator[None]:
    """A block that uses the output's storage.

    Raises:
        Unreachable: the storage failed; what is not there stays a FileNotFoundError.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        away = "the storage does not answer, or its credentials have expired"
        problem = OF_DISKS.get(number_of(error) or 0, away)
        raise Unreachable(f"sink.path: {problem}: {plain(error)}") from error


@contextmanager
def at_output(spec: BatchInferenceSpec) -> Iterator[None]:
    """A block that looks at what lies at the spec's output.

    Raises:
        InvalidSpec: it lies in a bucket that is not there.
        Unreachable: its storage does not answer, or not to this user.
    """
    try:
        with storage_of_output(), access_told(spec):
            yield
    except Unreachable as error:
        # Else to ask a storage that is away would take as long again.
        if NO_BUCKET.search(str(error)):
            opener = partial(open_storage, storage_options=spec.sink.storage_options)
            refuse_no_bucket("sink.path", opener, spec.sink.path)
        raise


@dataclass(frozen=True)
class Deadline:
    """When a run has to be done."""

    run_seconds: float | None
    started: float = field(default_factory=time.monotonic)
    set_by: str = "timeouts.run_seconds"
    """What says so, before the number."""

    @classmethod
    def of(cls, spec: BatchInferenceSpec) -> "Deadline":
        """The deadline of a run that starts now."""
        return cls(spec.timeouts.run_seconds)

    def seconds_left(self) -> float | None:
        """Time left; None where there is no limit."""
        if self.run_seconds is None:
            return None
        return max(0.0, self.started + self.run_seconds - time.monotonic())

    def within(self, seconds: float) -> float:
        """So many seconds, or what is left of the run's where that is less."""
        left = self.seconds_left()
        return seconds if left is None else min(seconds, left)

    def missed(self) -> RunTimedOut:
        """What to raise when it has passed."""
        return RunTimedOut(
            f"the run took longer than {self.set_by} {self.run_seconds:g}; run it again to "
            "continue where it stopped"
        )


@dataclass
class Stall:
    """Notices that nothing moves."""

    limit_seconds: float
    first_word_seconds: float = 0.0
    """How long a job may say nothing at first, where that is longer."""
    load_seconds: float = 0.0
    """How long it may load the model, where that is longer."""
    seen: Any = None
    queued: float | None = None
    """When a job that waits last said so, on its own clock."""
    since: float = field(default_factory=time.monotonic)

    def lasts(self, progress: dict[str, Any] | None) -> bool:
        """Take a look; whether no stage has moved a row for too long, with its turn come.

        A job that waits for its turn or for nodes has to say so again and again. Once the model is
        loaded, its first rows have as long as any.
        """
        seen = progress and (moves_by_stage(progress), is_loading(progress))
        queued = progress["at"] if progress and progress["state"] == "queued" else None
        if seen != self.seen or queued not in (None, self.queued):
            self.seen, self.queued, self.since = seen, queued, time.monotonic()
        return self.seconds_beyond(progress) > 0

    def seconds_beyond(self, progress: dict[str, Any] | None) -> float:
        """For how long nothing has moved that should have; less than nothing before that."""
        return time.monotonic() - self.since - self.limit(progress)

    def limit(self, progress: dict[str, Any] | None) -> float:
        """How long nothing may move."""
        if progress is None:
            return max(self.limit_seconds, self.first_word_seconds)
        return max(self.limit_seconds, self.load_seconds * is_loading(progress))

    def error(self, progress: dict[str, Any] | None) -> NoProgress:
        """What to raise: names the stage that is stuck, and what it waits for."""
        waits_for, limit = progress and progress.get("waits_for"), self.limit(progress)
        set_by = "timeouts.no_progress_seconds"
        if progress is None:
            why = "the job has reported nothing yet"
            if limit > self.limit_seconds:
                set_by = "the time allowed for environment.pip"
        else:
            rows = f"rows so far: {rows_by_stage(progress)}"
            why = f"waits for {waits_for}" if waits_for else rows
            if limit > self.limit_seconds:
                set_by = f"the time allowed for loading a model; allow more with {set_by}"
        return NoProgress(f"no row has moved for {limit:.0f} s ({set_by}); {why}").locate(
            stuck_stage(progress)
        )


def rows_by_stage(progress: dict[str, Any]) -> dict[str, int]:
    """How many rows each stage has moved."""
    return {name: stage["rows"] for name, stage in progress["stages"].items()}


def moves_by_stage(progress: dict[str, Any]) -> dict[str, int]:
    """Numbers that grow while stages get on."""
    return {name: moves(stage) for name, stage in progress["stages"].items()}


def is_loading(progress: dict[str, Any]) -> bool:
    """Whether the job waits for its model to be loaded; those of earlier versions do not say."""
    return bool(progress.get("is_loading"))


def stuck_stage(progress: dict[str, Any] | None) -> str:
    """The stage that does not move: the one that works, else the last one with rows before it."""
    if progress is None:
        return STAGES[0]
    stages = progress["stages"]
    undone = [stage for stage in STAGES if stages[stage]["state"] != "done"]
    if progress["works_at"] in undone:
        return str(progress["works_at"])
    stuck = undone[0] if undone else STAGES[-1]
    previous = STAGES[0]
    for stage in STAGES[1:]:
        if stage in undone and through(stages[stage]) < handed_on(stages[previous]):
            stuck = stage
        if stages[stage]["started"] or stage in undone:  # else it has nothing to do
            previous = stage
    return stuck
