"""One attempt after another: attach to the job that runs or start one, follow it, try again."""

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from tasks import errors
from tasks.clusters import RunningJob, attach, start
from tasks.errors import BatchInferenceError, JobLost, NoProgress, RunTimedOut
from tasks.lease import hold
from tasks.plan import PlannedRun
from tasks.protocol.acceptance import Gap
from tasks.protocol.plan_file import parquet_bytes
from tasks.ray_job.counts import STAGES
from tasks.ray_job.job import Job, load_job
from tasks.spec import BatchInferenceSpec, Timeouts

POLL_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 60.0
FOLLOWED: "list[Attempt]" = []
"""Attempts that this process follows or has followed, for whoever shows progress."""


@dataclass
class Attempt:
    """A job being followed by the four stage tasks."""

    job: Job
    timeouts: Timeouts
    stopped: threading.Event = field(default_factory=threading.Event)
    _running: RunningJob | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.stall = Stall(self.timeouts.no_progress_seconds)

    def ensure_started(self) -> RunningJob:
        """Attach to the job or start it; whichever stage task comes first does so."""
        with self._lock:
            try:
                if self._running is None:
                    self._running = attach(self.job)
                if self._running is None:
                    self._running = start(self.job)
            except BaseException:
                self.stopped.set()
                raise
            return self._running

    def await_stage(self, stage: str, deadline: "Deadline") -> None:
        """Wait until a stage has something to show: rows, its end, or that of the attempt.

        Raises:
            RunTimedOut: the run's time is up.
        """
        while not (self.stopped.is_set() or self.has_reached(stage)):
            if deadline.seconds_left() == 0:
                raise deadline.missed()
            self.stopped.wait(POLL_SECONDS)

    def has_reached(self, stage: str) -> bool:
        """Whether a stage, or one after it, has begun; or the attempt is over or stalls."""
        if self._running is None:
            return False
        progress = self.progress()
        now = progress["stages"] if progress else {}
        begun = [name for name in now if now[name]["started"] or now[name]["state"] == "done"]
        if any(STAGES.index(name) >= STAGES.index(stage) for name in begun):
            return True
        return self.stall.lasts(progress) or self.result() is not None

    def progress(self) -> dict[str, Any] | None:
        """What the job last said of itself; None before it has said anything."""
        return read_json(self.job, self.job.progress)

    def result(self) -> dict[str, Any] | None:
        """How the job ended; None while it runs.

        A job whose process is gone without a result is lost.
        """
        found = read_json(self.job, self.job.result)
        if found is None and not self.ensure_started().is_alive():
            time.sleep(POLL_SECONDS)
            found = read_json(self.job, self.job.result) or lost(self.job)
        return found

    def stop(self) -> None:
        """Stop following, and stop the job."""
        self.stopped.set()
        if self._running is not None:
            self._running.stop()


def read_json(job: Job, path: str) -> dict[str, Any] | None:
    """A JSON file of the attempt, or None."""
    try:
        found: dict[str, Any] = json.loads(job.storage.read(path))
    except FileNotFoundError:
        return None
    return found


def lost(job: Job) -> dict[str, Any]:
    """The result of a job that left none."""
    message = f"the process of attempt {job.attempt} is gone and left no result"
    return {"state": "failed", "error": {"class": "JobLost", "message": message, "stage": None}}


def left_to_do(planned: PlannedRun, *, tried: bool) -> Gap:
    """What the next attempt has to do; nothing where the run can be published or must be held.

    Rows that an earlier run's attempt set aside are tried again when there is anything else to
    do, or when they are too many to publish.
    """
    accepted = planned.accepted()
    gap = planned.gap(accepted, retry_rejected=False)
    total = len(accepted.settled) + len(accepted.rejected)
    too_many = len(accepted.rejected) > planned.spec.errors.max_rejected_fraction * total
    if not gap and (tried or not too_many):
        return gap
    return planned.gap(accepted, retry_rejected=True)


def next_attempt(planned: PlannedRun, gap: Gap) -> Attempt:
    """The attempt that still runs, or a new one on the gap."""
    hold(planned.storage, planned.run)
    jobs = attempts_of(planned)
    if jobs:
        latest = load_job(planned.storage.read(jobs[-1]))
        if latest.plan == planned.plan.digest and attach(latest):
            FOLLOWED.append(Attempt(latest, planned.spec.timeouts))
            return FOLLOWED[-1]
    todo = gap.todo(planned.plan)
    job = Job(
        spec=planned.spec.model_copy(update={"model": planned.pinned_model}),
        run_id=planned.run.run_id,
        attempt=len(jobs) + 1,
        plan=planned.plan.digest,
        pins=planned.plan.pins,
        num_shards=len(todo),
        todo_bytes=sum(todo["size"].to_pylist()),
        todo_rows=gap.rows,
    )
    planned.storage.write(job.todo, parquet_bytes(todo))
    job.save()
    FOLLOWED.append(Attempt(job, planned.spec.timeouts))
    return FOLLOWED[-1]


def attempts_of(planned: PlannedRun) -> list[str]:
    """Job files of the run's attempts, in order."""
    stats = planned.storage.list(f"{planned.run.path}/attempts")
    files = [stat.path for stat in stats if stat.path.endswith("/job.json")]
    return sorted(files, key=lambda path: int(path.split("/")[-2]))


def failure(result: dict[str, Any]) -> BatchInferenceError | None:
    """The error a job's result speaks of, as an exception of ours; None where it succeeded."""
    error = result["error"]
    if error is None:
        return None
    known: type[BatchInferenceError] = getattr(errors, error["class"], JobLost)
    raised = known(error["message"])
    if error["stage"]:
        raised.locate(error["stage"], error["source"], error["row"])
    return raised


def backoff_seconds(attempt: int) -> float:
    """How long to wait before another attempt."""
    return min(MAX_BACKOFF_SECONDS, 2.0 ** (attempt - 1))


@dataclass(frozen=True)
class Deadline:
    """When a run has to be done, on this process's monotonic clock."""

    run_seconds: float | None
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, spec: BatchInferenceSpec) -> "Deadline":
        """The deadline of a run that starts now."""
        return cls(spec.timeouts.run_seconds)

    def seconds_left(self) -> float | None:
        """Time left; None where there is no limit."""
        if self.run_seconds is None:
            return None
        return max(0.0, self.started + self.run_seconds - time.monotonic())

    def missed(self) -> RunTimedOut:
        """What to raise when it has passed."""
        return RunTimedOut(
            f"the run took longer than timeouts.run_seconds {self.run_seconds:g}; run it again to "
            "go on where it stopped"
        )


@dataclass
class Stall:
    """Notices that nothing moves."""

    limit_seconds: float
    seen: Any = None
    since: float = field(default_factory=time.monotonic)

    def lasts(self, progress: dict[str, Any] | None) -> bool:
        """Take a look; whether no stage has moved a row for too long."""
        counts = progress and {k: v["rows"] for k, v in progress["stages"].items()}
        if counts != self.seen:
            self.seen, self.since = counts, time.monotonic()
        return time.monotonic() - self.since > self.limit_seconds

    def check(self, stage: str, progress: dict[str, Any] | None) -> None:
        """Take a look.

        Raises:
            NoProgress: no stage has moved a row for too long; names the stage that is asked.
        """
        if self.lasts(progress):
            raise NoProgress(
                f"no row has moved for {self.limit_seconds:.0f} s; {stage} stands at {self.seen}"
            )
