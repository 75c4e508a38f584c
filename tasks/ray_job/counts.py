"""How many rows each stage has seen; the stages report, the driver looks."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypedDict

from tasks.protocol.batch import RowBatch
from tasks.ray_job.parents import num_parents

OWN_THREAD = Path("/proc/thread-self/schedstat")
"""What the scheduler of Linux has counted of a thread."""
STAGES = ("read", "preprocess", "infer", "write")
BEFORE_CUT, AFTER_CUT = STAGES[:2], STAGES[2:]
"""The stages of the two jobs that a run is cut into on request."""


def nearest(stage: str | None, stages: tuple[str, ...]) -> str:
    """The stage of a job at which another one's trouble shows; of no stage's, at the last.

    The first of two jobs writes and the second one reads, and neither has a stage of that name.
    """
    if stage not in STAGES:
        return stages[-1]
    return min(stages, key=lambda each: abs(STAGES.index(each) - STAGES.index(stage)))


@dataclass(frozen=True)
class Report:
    """What one stage did to one batch."""

    stage: str
    rows: int
    """Rows that are through with the stage, those set aside or filtered by it included."""
    rejected: int
    filtered: int
    seconds: float
    size: int = 0
    """Read: bytes of input that are finished."""
    tasks: int = 0
    """Read: shares that are finished."""
    parents: int = 0
    """Rows of the source among these: where steps made many of one, they count once."""
    cpu_seconds: float = 0.0
    """Of `seconds`, those in which the worker computed; in the others it waited for something."""
    queued_seconds: float = 0.0
    """Of the others, those in which it waited for a core."""
    device_seconds: float = 0.0
    """Infer: seconds in which the replica's GPU was busy."""
    passed_over: int = 0
    """Read: rows that are not handed on, since an earlier attempt has done them, or a redrive does
    not want them."""


SUMMED = tuple(each.name for each in fields(Report) if each.name != "stage")
"""What is added up, of reports to a stage's count and of counts to one another."""


@dataclass
class StageCount:
    """What one stage did so far."""

    rows: int = 0
    rejected: int = 0
    filtered: int = 0
    seconds: float = 0.0
    size: int = 0
    tasks: int = 0
    parents: int = 0
    cpu_seconds: float = 0.0
    queued_seconds: float = 0.0
    device_seconds: float = 0.0
    passed_over: int = 0
    started: float | None = None
    updated: float | None = None


Snapshot = dict[str, dict[str, Any]]
"""All stages' counts as JSON."""


@dataclass
class Counts:
    """All stages' counts; on a cluster an actor."""

    stages: dict[str, StageCount] = field(
        default_factory=lambda: {stage: StageCount() for stage in STAGES}
    )

    def add(self, report: Report) -> None:
        """Take a stage's report."""
        count = self.stages[report.stage]
        now = time.time()
        count.started = count.started or now - report.seconds
        count.updated = now
        for name in SUMMED:
            setattr(count, name, getattr(count, name) + getattr(report, name))

    def snapshot(self) -> Snapshot:
        """All counts as JSON."""
        return {stage: asdict(count) for stage, count in self.stages.items()}


def is_begun_anew(before: Snapshot, now: Snapshot) -> bool:
    """Whether counts are those of another counter, in the place of one that has died."""
    return any(now[stage]["rows"] < before[stage]["rows"] for stage in STAGES)


def together(lost: Snapshot, now: Snapshot) -> Snapshot:
    """What counters have counted that have died, and what the one in their place has since."""
    return {
        stage: {
            **{name: lost[stage][name] + now[stage][name] for name in SUMMED},
            "started": lost[stage]["started"] or now[stage]["started"],
            "updated": now[stage]["updated"] or lost[stage]["updated"],
        }
        for stage in STAGES
    }


def moves(count: Mapping[str, Any]) -> int:
    """A number that grows while a stage gets on.

    Over inputs without rows too, and over rows that are passed over, of which jobs of earlier
    versions do not tell.
    """
    return sum(int(count.get(name, 0)) for name in ("rows", "passed_over", "size", "tasks"))


def through(count: Mapping[str, Any]) -> int:
    """Rows of the source that are through with a stage; jobs of earlier versions told all rows."""
    return int(count.get("parents", count["rows"]))


def handed_on(count: Mapping[str, Any]) -> int:
    """Those of them that go on to the next stage."""
    return through(count) - int(count["rejected"]) - int(count["filtered"])


Reporter = Callable[[Report], None]
Stage = Callable[[RowBatch], Iterator[RowBatch]]
"""What becomes of a batch: it comes out whole, or in parts as these are done."""


def with_reports(name: str, stage: Stage, report: Reporter) -> Stage:
    """A stage that reports what it does, batch by batch."""

    def stage_with_report(batch: RowBatch) -> Iterator[RowBatch]:
        before = (len(batch.rejected), len(batch.filtered), batch.seconds.get(name, 0.0))
        clock = CoreClock()
        for each in stage(batch):
            report(replace(report_of(name, each, *before), **clock.lap()))
            before = (0, 0, 0.0)
            yield each
            clock.lap()

    return stage_with_report


class CoreTime(TypedDict):
    """A thread's seconds, as a report has them."""

    cpu_seconds: float
    queued_seconds: float


class CoreClock:
    """Seconds in which this thread computes, and in which it waits for a core to compute on.

    Other threads of its process do not count.
    """

    def __init__(self) -> None:
        self.at = core_seconds()

    def lap(self) -> CoreTime:
        """Seconds since the last lap."""
        before, self.at = self.at, core_seconds()
        return {
            "cpu_seconds": max(0.0, self.at["cpu_seconds"] - before["cpu_seconds"]),
            "queued_seconds": max(0.0, self.at["queued_seconds"] - before["queued_seconds"]),
        }


def core_seconds() -> CoreTime:
    """Seconds of this thread so far; those in the queue are 0 where its system does not tell.

    See https://docs.kernel.org/scheduler/sched-stats.html for the second number of `schedstat`.
    """
    try:
        queued = int(OWN_THREAD.read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        queued = 0.0
    return {"cpu_seconds": time.thread_time(), "queued_seconds": queued}


def report_of(
    stage: str, batch: RowBatch, rejected: int = 0, filtered: int = 0, spent: float = 0.0
) -> Report:
    """What a stage has done to a batch.

    Args:
        stage: read, preprocess, infer or write.
        batch: as it came out.
        rejected: rows that were set aside before the stage had it.
        filtered: the same of rows that were filtered.
        spent: seconds of the stage that are reported already.
    """
    rejected, filtered = len(batch.rejected) - rejected, len(batch.filtered) - filtered
    return Report(
        stage=stage,
        rows=len(batch.rows) + rejected + filtered,
        rejected=rejected,
        filtered=filtered,
        parents=num_parents(batch.rows) + rejected + filtered,
        seconds=batch.seconds.get(stage, 0.0) - spent,
    )
