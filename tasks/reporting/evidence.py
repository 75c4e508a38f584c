"""What a run left behind, read once: records, attempts, rows set aside."""

import logging
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.outputs import first_job_of
from tasks.plan import PlannedRun
from tasks.protocol.acceptance import Accepted
from tasks.protocol.asked_at_once import asked_at_once, fetched
from tasks.protocol.layout import RunFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.plan_file import load_plan
from tasks.protocol.read_back import decoded, read_note
from tasks.protocol.records import Record, load_records
from tasks.protocol.rewriting import read_published
from tasks.protocol.storage import FsspecStorage
from tasks.publishing.rejections import Rejections, load_rejections, rows_shown
from tasks.ray_job.counts import STAGES
from tasks.ray_job.job import Job, stored_job
from tasks.ray_job.output_schema import pinned
from tasks.run import attempts_in
from tasks.spec import BatchInferenceSpec

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PastAttempt:
    """One attempt, as its files tell."""

    number: int
    stages: dict[str, Any]
    """Counts by stage; empty where it died before it said anything."""
    error: dict[str, Any] | None
    has_ended: bool
    driver_started: float | None
    held: dict[str, float] = field(default_factory=dict)
    """Hours of CPU cores and GPUs, as its job last said."""
    occupancy: dict[str, Any] = field(default_factory=dict)
    """What became of its workers' time, without Ray only how busy the cores were; empty where the
    model never was there."""
    job_stages: tuple[str, ...] = STAGES
    """What of the run its job did."""

    @property
    def started(self) -> float | None:
        """When its first stage began, else its process."""
        times = [count["started"] for count in self.stages.values() if count["started"]]
        return min(times, default=self.driver_started)

    @property
    def seconds(self) -> float:
        """From its first sign of work to its last."""
        ends = [count["updated"] for count in self.stages.values() if count["updated"]]
        return float(max(ends) - (self.started or 0.0)) if ends else 0.0

    def rows(self, stage: str) -> int:
        """Rows through a stage."""
        return int(self.stages[stage]["rows"]) if self.stages else 0


@dataclass(frozen=True)
class FirstJob:
    """What the first job of a run that was cut left behind; nothing where it was not."""

    records: tuple[Record, ...] = ()
    attempts: tuple[PastAttempt, ...] = ()
    profiles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """A run's files; nothing in here is estimated."""

    planned: PlannedRun
    started: float
    """When this call of the run began; earlier calls may have left attempts and records."""
    records: list[Record]
    accepted: Accepted
    attempts: list[PastAttempt]
    first_job: FirstJob = FirstJob()

    @property
    def all_attempts(self) -> list[PastAttempt]:
        """The attempts of both jobs, where the run was cut."""
        return [*self.first_job.attempts, *self.attempts]

    @cached_property
    def own_records(self) -> list[Record]:
        """Accepted records of this call."""
        return [each for each in self.accepted.records if not self.is_earlier(each)]

    @property
    def own_attempts(self) -> list[PastAttempt]:
        """Attempts of this call; the last one where it only followed what another has begun."""
        begun = [each for each in self.attempts if each.number > self.planned.attempts_before]
        return begun or self.attempts[-1:]

    @cached_property
    def last_job(self) -> Job | None:
        """This call's last job, as it was told; None where this version can read none."""
        for attempt in reversed(self.own_attempts):
            path = f"{self.planned.run.attempt(attempt.number)}/job.json"
            if job := stored_job(self.planned.storage, path):
                return job
        return None

    @property
    def job_spec(self) -> BatchInferenceSpec:
        """The spec as this call's last job was told it: with the Ray that it has joined."""
        return self.last_job.spec if self.last_job else self.planned.spec

    @property
    def resumed_rows(self) -> int:
        """Rows that were settled before this call."""
        earlier = [each for each in self.accepted.records if self.is_earlier(each)]
        return sum(len(each.ok) + len(each.filtered) for each in earlier)

    @property
    def is_part(self) -> bool:
        """Whether this call did a part of what a run does: a trial, a redrive, or only the rest."""
        planned = self.planned
        asked_for_part = planned.options.limit is not None or planned.plan.redrives
        return asked_for_part or self.resumed_rows > 0

    def is_earlier(self, record: Record) -> bool:
        """Whether a record was there before this call.

        Clocks are asked of the last attempt before it alone, whose job the call may have followed:
        each machine has its own, and it may jump.
        """
        if record.attempt != self.planned.attempts_before:
            return record.attempt < self.planned.attempts_before
        return record_time(record) < self.started

    @cached_property
    def ledger(self) -> Snapshot:
        """What is published now."""
        return self.planned.ledger.look()

    @cached_property
    def rejections(self) -> Rejections:
        """The rows that stayed rejected, by kind."""
        if self.ledger.version_of(self.planned.run_key) is None:
            return load_rejections(self.planned, self.accepted)
        found = Rejections()
        for rows in fetched(self.rows_aside, self.published("quarantine")):
            if rows is not None:
                found.add_rows(rows)
        return found

    def rows_aside(self, file: LedgerFile) -> pa.Table | None:
        """The rows of a quarantine file; None where others have changed or removed it.

        That is logged: the rows are published, and the rest of the report is as it was.

        Raises:
            FileNotFoundError: somebody has published since the ledger was looked at.
        """
        planned = self.planned
        try:
            content = read_published(planned.storage, planned.output, file)
            return decoded(file.target(planned.output), content, rows_shown, "Restore it")
        except (FileNotFoundError, InvalidSpec) as error:
            self.go_without("rows set aside", error)
            return None

    def go_without(self, what: str, error: Exception) -> None:
        """Log what the report lacks, since others have changed or removed a file of the run's.

        Raises:
            FileNotFoundError: the error itself, where somebody has published since the ledger was
                looked at, and has removed the file by that.
        """
        if self.planned.ledger.look().version != self.ledger.version:
            raise error
        logger.warning("the report goes without %s: %s", what, error)

    @cached_property
    def schema(self) -> pa.Schema | None:
        """The run's output schema; None where no row was written."""
        return pinned(self.planned.storage, self.planned.run)

    @cached_property
    def profiles(self) -> list[str]:
        """Files of the stages' profiles, of both jobs where the run was cut."""
        found = profiles_in(self.planned.storage, self.planned.run)
        return [*self.first_job.profiles, *found]

    def published(self, line: str = "file") -> list[LedgerFile]:
        """The run's published files, of data or of rows set aside."""
        files = self.ledger.files if line == "file" else self.ledger.quarantine
        return files.of_run(self.planned.run.run_id)


def record_time(record: Record) -> float:
    """When a record was made, in seconds since the epoch: its name begins with it."""
    return int(record.name.split("-")[0]) / 1e9


def look_back(planned: PlannedRun, started: float) -> Evidence:
    """Read what a run left behind, under the plan that is in force by now."""
    plan = load_plan(planned.storage, planned.run) or planned.plan
    planned = replace(planned, plan=plan)
    records = load_records(planned.storage, planned.run, planned.known_records)
    attempts = load_attempts(planned.storage, planned.run)
    accepted, first = planned.accepted(), look_at_first_job(planned)
    return Evidence(planned, started, records, accepted, attempts, first)


def look_at_first_job(planned: PlannedRun) -> FirstJob:
    """Read what the first job left behind, where there was one."""
    try:
        storage, run = first_job_of(planned.spec, planned.storage, planned.run.prepared)
    except FileNotFoundError:
        return FirstJob()
    return FirstJob(
        tuple(load_records(storage, run)),
        tuple(load_attempts(storage, run)),
        tuple(profiles_in(storage, run)),
    )


def profiles_in(storage: FsspecStorage, run: RunFolder) -> list[str]:
    """Files of a run's profiles."""
    return sorted(stat.path for stat in storage.list(run.profile))


def load_attempts(storage: FsspecStorage, run: RunFolder) -> list[PastAttempt]:
    """A run's attempts, in order."""
    return list(asked_at_once(partial(load_attempt, storage), attempts_in(storage, run)))


def load_attempt(storage: FsspecStorage, job_file: str) -> PastAttempt:
    """One attempt from the files beside its job file."""
    folder = job_file.rpartition("/")[0]
    beside = (f"{folder}/{name}.json" for name in ("progress", "result", "driver"))
    job, progress, result, driver = (read_note(storage, path) or {} for path in (job_file, *beside))
    return PastAttempt(
        number=int(folder.rpartition("/")[2]),
        stages=progress.get("stages", {}),
        error=result.get("error"),
        has_ended=bool(result),
        driver_started=driver.get("started"),
        held=progress.get("held", {}),
        occupancy=progress.get("occupancy", {}),
        job_stages=tuple(job.get("stages", STAGES)),
    )
