"""What happened: one report for people and machines."""

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from tasks.plan import PlannedRun
from tasks.publish import count_rows


@dataclass(frozen=True)
class RunReport:
    """The run in figures; the last line of `--json`."""

    run_id: str
    state: str
    published: bool
    version: int
    output: str
    rows: dict[str, int]
    inputs_skipped: int
    attempts: int = 0
    resumed_rows: int = 0
    redone_rows: int = 0
    seconds: dict[str, float | None] = field(default_factory=dict)
    stages: dict[str, Any] = field(default_factory=dict)
    bottleneck: str | None = None

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def report_run(
    planned: PlannedRun, started: float, version: int | None = None, attempts: int = 0
) -> RunReport:
    """The report of a run that ended well."""
    accepted = planned.accepted()
    return RunReport(
        run_id=planned.run.run_id,
        state="done",
        published=version is not None,
        version=version or planned.plan.pins["ledger_version"],
        output=planned.output.path,
        rows=count_rows(accepted),
        inputs_skipped=planned.inputs_skipped,
        attempts=attempts,
        resumed_rows=planned.rows_before,
        seconds={"total": time.time() - started},
    )
