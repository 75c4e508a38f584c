"""A run in figures."""

import time
from dataclasses import asdict, dataclass, field
from typing import Any

from tasks.plan import PlannedRun
from tasks.protocol.ledger import Snapshot
from tasks.ray_job.batch_limits import halvings_of, is_short
from tasks.ray_job.runtimes import runtimes_of
from tasks.record_coverage import count_rows
from tasks.reporting.addresses import named_on
from tasks.reporting.evidence import Evidence
from tasks.reporting.figures import (
    cost_of,
    count_redone,
    hours_held,
    measure_seconds,
    stage_figures,
    written_per_second,
)
from tasks.reporting.file_sizes import FileSizes, file_sizes
from tasks.reporting.timings import Timings, timings_of
from tasks.reporting.verdict import Verdict, judge_run


@dataclass(frozen=True)
class RunReport:
    """The run in figures; the last line of `--json`."""

    run_id: str
    state: str
    published: bool
    version: int
    output: str
    rows: dict[str, int]
    """By what became of them; of an upsert also those that newer ones of the run superseded. Empty
    where the storage did not answer any more after the run was published."""
    inputs_skipped: int
    set_aside: list[str] = field(default_factory=list)
    """Which errors rows were set aside with, the first rows of each, and where all of them lie."""
    attempts: int = 0
    """Attempts of this call; earlier calls of the same run may have made more."""
    resumed_rows: int = 0
    """Rows that were settled before this call."""
    redone_rows: int = 0
    """Rows that left the model and were not accepted: what crashes and replays have cost."""
    seconds: dict[str, float | None] = field(default_factory=dict)
    """Of this call: total, until the model's first row, and steady."""
    rows_per_second: float | None = None
    """Rows that this call has written, superseded ones too, over its steady seconds."""
    stages: dict[str, Any] = field(default_factory=dict)
    """By stage: rows and busy seconds of the whole run, and what its workers' time went into."""
    bottleneck: Verdict | None = None
    """What bounds it, by how much, and the setting to change; None where nothing ran."""
    batch_halvings: list[dict[str, Any]] = field(default_factory=list)
    """Each time that memory ran out: on which device, and how often batches are halved since."""
    runtimes: list[dict[str, Any]] = field(default_factory=list)
    """What the model's replicas calculated with: runtime, precision, difference from eager."""
    profile: str | None = None
    """Folder of the stages' profiles, where they were asked for."""
    accuracy: float | None = None
    """Where rows have `label` and `predicted_label`."""
    held: dict[str, float] = field(default_factory=dict)
    """Hours of CPU cores and GPUs that the whole run has held."""
    cost: float | None = None
    """That at the spec's prices."""
    file_sizes: FileSizes | None = None
    """Of the published files of rows; with the setting that makes them larger where that pays."""
    gates: list[dict[str, Any]] = field(default_factory=list)
    """What each gate measured, its limit, and whether the rows passed."""
    accepted: dict[str, Any] | None = None
    """Which gates failed where the run was published on somebody's word: whose, and when."""
    replaced_by: dict[str, Any] | None = None
    """The `version` that has taken the place of this one since, complete, and its `run_id`."""
    scheduled_time: str | None = None
    """What the paths were filled in with, where they name a time."""
    report: str | None = None
    """Where the Markdown report lies."""
    manifest: str | None = None

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def without_figures(planned: PlannedRun, started: float, version: int, attempts: int) -> RunReport:
    """What is known of a published run where its storage does not answer any more."""
    return RunReport(
        run_id=planned.run.run_id,
        state="done",
        published=True,
        version=version,
        output=named_on(planned.storage, planned.output.path),
        rows={},
        inputs_skipped=planned.inputs_skipped,
        attempts=attempts,
        seconds={"total": round(time.time() - started, 3)},
        scheduled_time=planned.options.scheduled_iso,
    )


def figures_of(
    evidence: Evidence, version: int | None, attempts: int, ended: float | None = None
) -> RunReport:
    """What the report says before anything of it is written.

    Args:
        evidence: of the run.
        version: what it was published as; None where it was not.
        attempts: of this call.
        ended: when the call ended, in seconds since the epoch; else now.

    Raises:
        FileNotFoundError: somebody has published since the evidence was looked at.
    """
    planned = evidence.planned
    seconds = measure_seconds(evidence, (ended or time.time()) - evidence.started)
    timings = timings_of(evidence, seconds["steady"])
    stages = stage_figures(evidence, timings)
    held = hours_held(evidence)
    halvings = halvings_of(planned.storage, planned.output, planned.run.run_id)
    return RunReport(
        run_id=planned.run.run_id,
        state="done",
        published=version is not None,
        version=version or planned.plan.pins["ledger_version"],
        output=named_on(planned.storage, planned.output.path),
        rows=rows_of(evidence, version),
        replaced_by=replaced_by(evidence.ledger, version),
        inputs_skipped=planned.inputs_skipped,
        attempts=attempts,
        resumed_rows=evidence.resumed_rows,
        redone_rows=count_redone(evidence, stages),
        seconds=seconds,
        rows_per_second=written_per_second(evidence, seconds["steady"]),
        stages=stages,
        bottleneck=verdict_of(evidence, seconds, timings, memory_ran_out=bool(halvings)),
        batch_halvings=halvings,
        runtimes=runtimes_of(planned.storage, planned.run),
        profile=named_on(planned.storage, planned.run.profile) if evidence.profiles else None,
        held=held,
        cost=cost_of(planned.spec, held),
        file_sizes=None if version is None else file_sizes(evidence, seconds["steady"]),
        scheduled_time=planned.options.scheduled_iso,
    )


def verdict_of(
    evidence: Evidence,
    seconds: dict[str, float | None],
    timings: Timings | None,
    *,
    memory_ran_out: bool,
) -> Verdict | None:
    """What bounds a run, and the setting to change.

    Args:
        evidence: of the run.
        seconds: as `measure_seconds` has them.
        timings: of its workers.
        memory_ran_out: whether it did during the run; before it, earlier runs have noted that.
    """
    spec, fingerprints = evidence.job_spec, evidence.planned.plan.pins["fingerprints"]
    return judge_run(
        spec,
        seconds,
        timings,
        given=evidence.planned.spec,
        memory_ran_out=memory_ran_out or is_short(spec, fingerprints),
        is_part=evidence.is_part,
    )


def rows_of(evidence: Evidence, version: int | None) -> dict[str, int]:
    """Rows by what became of them, as the ledger has it once they are published."""
    if version is None:
        return count_rows(evidence.accepted)
    rows: dict[str, int] = evidence.ledger.entries[version]["rows"]
    return rows


def replaced_by(seen: Snapshot, version: int | None) -> dict[str, Any] | None:
    """The complete version that has taken the place of a published one; None where none has."""
    if version is None or seen.base <= version:
        return None
    return {"version": seen.base, "run_id": seen.entries[seen.base]["run_id"]}
