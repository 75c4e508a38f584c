"""Tells the orchestrator how far the job is, and stops a job that cannot be published."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from tasks.ray_job.budget import Budget
from tasks.ray_job.counts import STAGES, Snapshot, handed_on, moves
from tasks.ray_job.job import Job
from tasks.ray_job.occupancy import Occupancy
from tasks.ray_job.stage_functions import has_preprocessing

WRITE_EVERY_SECONDS, WRITE_LATER_EVERY_SECONDS = 0.5, 2.0
EAGER_SECONDS = 30.0
"""From a job's start on people watch closely; a long one is not to write for each half second."""


@dataclass(frozen=True)
class JobStatus:
    """Where a job stands, for whoever wonders why nothing moves."""

    works_at: str | None = None
    """The last stage that has work in hand; None where none has, or nobody knows."""
    waits_for: str | None = None
    cpus: float = 0.0
    """CPU cores that the stages hold now."""
    gpus: float = 0.0
    """GPUs that the stages hold now."""
    is_loading: bool = False
    """Whether it waits for a replica that loads the model."""


@dataclass
class Held:
    """What a job has held from its start, for whoever pays for it."""

    cpu_hours: float = 0.0
    gpu_hours: float = 0.0

    def __post_init__(self) -> None:
        self.until, self.last = time.monotonic(), JobStatus()

    def add(self, status: JobStatus) -> None:
        """What is held now has been held since the last look."""
        now = time.monotonic()
        hours = (now - self.until) / 3600
        self.cpu_hours += status.cpus * hours
        self.gpu_hours += status.gpus * hours
        self.until, self.last = now, status


class Progress:
    """Writes `progress.json` while the job runs: every half second, after a while every two."""

    def __init__(
        self,
        job: Job,
        snapshot: Callable[[], Snapshot],
        num_reads: int,
        likely_rows: int | None = None,
        *,
        counts_once: bool = False,
    ) -> None:
        self.job = job
        self.budget = Budget(job, counts_once=counts_once)
        self.snapshot = snapshot
        self.num_reads = num_reads
        self.likely_rows = likely_rows
        """Rows of the attempt, as a look at some inputs had them."""
        self.begun, self.written = time.monotonic(), 0.0
        self.held = Held()
        self.occupancy = Occupancy(shares=num_reads)
        self.predicted, self.total = 0, likely_rows
        """Rows of the source that are through the model at the last look, and how many will be,
        where that is known; where steps make many of one, it counts once."""
        self.moved, self.seen = time.monotonic(), 0
        """When a row was last seen to move, and a number that tells."""

    def step(self, status: Callable[[], JobStatus] = JobStatus) -> None:
        """Called often; does something now and then.

        Args:
            status: says where the job stands.

        Raises:
            ErrorBudgetExceeded: so many rows are set aside that the run cannot be published.
        """
        if time.monotonic() - self.written < self.every_seconds:
            return
        counts, now = self.snapshot(), status()
        self.held.add(now)
        with suppress(OSError):  # a storage that is away for a moment ends no job
            self.write("running", counts, now)
        self.budget.check(counts)
        self.written = time.monotonic()

    @property
    def every_seconds(self) -> float:
        """Between two looks at a job."""
        is_young = time.monotonic() - self.begun < EAGER_SECONDS
        return WRITE_EVERY_SECONDS if is_young else WRITE_LATER_EVERY_SECONDS

    def leave(self, status: JobStatus) -> None:
        """Say what a job has done and held that does not go on."""
        self.held.add(status)
        with suppress(OSError):  # what ended the job is to be heard
            self.write("running", self.snapshot(), status)

    def finish(self) -> None:
        """Say that every stage is done."""
        self.held.add(self.held.last)
        with suppress(OSError):  # the result says so too
            self.write("done", self.snapshot())

    def total_of(self, read: dict[str, Any]) -> int | None:
        """Rows of this attempt: known, or reckoned, or None.

        By what is read once half of the bytes are: rows count as they are read and bytes at the end
        of a file or part, so that before it would be far too many.

        Args:
            read: what the read stage has counted.
        """
        if self.job.todo_rows is not None:
            return self.job.todo_rows
        rows, size = int(read["parents"]), read["size"]
        if read["tasks"] >= self.num_reads:
            return rows
        if self.likely_rows is not None and 2 * size < self.job.todo_bytes:
            return max(rows, self.likely_rows)
        return round(rows * self.job.todo_bytes / size) if size else None

    def write(self, state: str, counts: Snapshot, status: JobStatus = JobStatus()) -> None:
        """Store the counts with what follows from them."""
        if (seen := sum(map(moves, counts.values()))) != self.seen:
            self.moved, self.seen = time.monotonic(), seen
        upstream_done = counts["read"]["tasks"] >= self.num_reads
        idle, stages = idle_stages(self.job), {}
        previous, expected = counts["read"], self.total_of(counts["read"])
        for stage in STAGES:
            count = counts[stage]
            is_empty = stage in idle
            if stage != "read" and not is_empty:
                left = handed_on(previous)
                upstream_done = upstream_done and count["parents"] >= left
                expected = in_proportion(expected, left, previous["parents"])
            if stage == "infer":
                self.predicted, self.total = count["parents"], expected
            done = state == "done" or upstream_done or (is_empty and stage not in self.job.stages)
            of_stage = "done" if done else "running" if count["started"] else "waiting"
            total = in_proportion(expected, count["rows"], count["parents"])
            stages[stage] = {**count, "state": of_stage, "total": total}
            previous = previous if is_empty else count
        body = {
            "state": state,
            "attempt": self.job.attempt,
            "at": time.time(),
            "stages": stages,
            **asdict(status),
            "held": asdict(self.held),
            "occupancy": self.occupancy.as_json(counts),
        }
        self.job.storage.write(self.job.progress_file, json.dumps(body).encode())


def in_proportion(rows: int | None, part: int, whole: int) -> int | None:
    """Rows that are expected, by what has become of those so far; as they are while none are."""
    return round(rows * part / whole) if rows and whole else rows


def idle_stages(job: Job) -> set[str]:
    """Stages through which no row of the job goes."""
    idle = set() if has_preprocessing(job.spec, job.stages) else {"preprocess"}
    return idle if "infer" in job.stages else idle | {"infer"}
