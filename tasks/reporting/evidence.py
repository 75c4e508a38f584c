"""What a run left behind, read once: records, attempts, rows set aside."""

import io
import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.plan import PlannedRun
from tasks.protocol.acceptance import Accepted
from tasks.protocol.ledger import LedgerFile, Snapshot
from tasks.protocol.plan_file import load_plan
from tasks.protocol.records import Record, load_records
from tasks.protocol.rewriting import read_published
from tasks.publish import load_rejections
from tasks.ray_job.writing import pinned
from tasks.run import attempts_of

SHOWN_OF_REJECTIONS = ["source", "row", "stage", "error_type", "error_message"]


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

    @property
    def started(self) -> float | None:
        """When its first stage began, else its process."""
        times = [count["started"] for count in self.stages.values() if count["started"]]
        return min(times, default=self.driver_started)

    def rows(self, stage: str) -> int:
        """Rows through a stage."""
        return int(self.stages[stage]["rows"]) if self.stages else 0


@dataclass(frozen=True)
class Evidence:
    """A run's files; nothing in here is estimated."""

    planned: PlannedRun
    started: float
    """When this call of the run began; earlier calls may have left attempts and records."""
    records: list[Record]
    accepted: Accepted
    attempts: list[PastAttempt]

    @cached_property
    def own_records(self) -> list[Record]:
        """Accepted records of this call."""
        return [each for each in self.accepted.records if not self.is_earlier(each)]

    @property
    def resumed_rows(self) -> int:
        """Rows that were settled before this call."""
        earlier = [each for each in self.accepted.records if self.is_earlier(each)]
        return sum(len(each.ok) + len(each.filtered) for each in earlier)

    def is_earlier(self, record: Record) -> bool:
        """Whether a record was there before this call."""
        return record_time(record) < self.started

    @cached_property
    def ledger(self) -> Snapshot:
        """What is published now."""
        return self.planned.ledger.look()

    @cached_property
    def rejections(self) -> list[dict[str, Any]]:
        """The rows that stayed rejected, one line each."""
        if self.ledger.version_of(self.planned.run_key) is None:
            return load_rejections(self.planned, self.accepted)
        lines: list[dict[str, Any]] = []
        for file in self.published("quarantine"):
            data = read_published(self.planned.storage, self.planned.output, file)
            lines += pq.read_table(io.BytesIO(data), columns=SHOWN_OF_REJECTIONS).to_pylist()
        return lines

    @cached_property
    def schema(self) -> pa.Schema | None:
        """The run's output schema; None where no row was written."""
        return pinned(self.planned.storage, self.planned.run)

    def published(self, line: str = "file") -> list[LedgerFile]:
        """The run's published files, of data or of rows set aside."""
        files = self.ledger.files if line == "file" else self.ledger.quarantine
        return [f for f in files.values() if f.run_id == self.planned.run.run_id]


def record_time(record: Record) -> float:
    """When a record was made, in seconds since the epoch: its name begins with it."""
    return int(record.name.split("-")[0]) / 1e9


def look_back(planned: PlannedRun, started: float) -> Evidence:
    """Read what a run left behind, under the plan that is in force by now."""
    plan = load_plan(planned.storage, planned.run) or planned.plan
    planned = replace(planned, plan=plan)
    records = load_records(planned.storage, planned.run)
    attempts = [load_attempt(planned, path) for path in attempts_of(planned)]
    return Evidence(planned, started, records, planned.accepted(), attempts)


def load_attempt(planned: PlannedRun, job_file: str) -> PastAttempt:
    """One attempt from the files beside its job file."""
    folder = job_file.rpartition("/")[0]
    progress = read_json(planned, f"{folder}/progress.json")
    result = read_json(planned, f"{folder}/result.json")
    driver = read_json(planned, f"{folder}/driver.json")
    return PastAttempt(
        number=int(folder.rpartition("/")[2]),
        stages=progress.get("stages", {}),
        error=result.get("error"),
        has_ended=bool(result),
        driver_started=driver.get("started"),
        held=progress.get("held", {}),
    )


def read_json(planned: PlannedRun, path: str) -> dict[str, Any]:
    """A JSON file; empty where there is none."""
    try:
        found: dict[str, Any] = json.loads(planned.storage.read(path))
    except FileNotFoundError:
        return {}
    return found
