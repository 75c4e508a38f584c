"""What is left to do: list the inputs, subtract what is published and recorded, pin the rest."""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from tasks.config import config_digest, digest, refuse_other_config
from tasks.kinds.models import Model
from tasks.new_inputs import NewInputs
from tasks.output_trial import try_output
from tasks.preflight import check_spec
from tasks.protocol.acceptance import Accepted, Gap, accept, find_gap
from tasks.protocol.applying import bring_up_to_date
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.layout import OutputFolder, RunFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import Plan, load_plan
from tasks.protocol.records import Record, load_records
from tasks.protocol.storage import FsspecStorage
from tasks.protocol.table import refuse_moved
from tasks.ray_job.counts import AFTER_CUT, STAGES
from tasks.ray_job.job import output_of
from tasks.ray_job.writing import of_pinned_schema
from tasks.run_folder import (
    check_schema,
    pin_schema,
    published_schema,
    save_and_reload,
    save_header,
)
from tasks.set_aside import SetAside
from tasks.spec import BatchInferenceSpec
from tasks.unfinished import abandoned_runs, refuse_other_run


@dataclass(frozen=True)
class RunOptions:
    """How a run was called; none of it is part of the spec."""

    restart: bool = False
    """Start anew where another run is unfinished; nothing published is lost."""
    replace_output: bool = False
    """Make this run a complete new version."""
    limit: int | None = None
    """Only the first so many rows; the output must be one of its own."""
    accept: bool = False
    """Publish what the gates hold back, on the word of whoever calls."""
    redrive: bool = False
    """Do again what published runs have set aside, instead of new inputs."""
    profile: bool = False
    """Leave profiles of the stages in the run's folder."""
    scheduled_time: datetime | None = None
    """What the spec's paths are filled in with; of a plan None, where they name no time."""

    @property
    def call(self) -> dict[str, Any]:
        """What of it makes another run."""
        names = ("replace_output", "limit", "redrive")
        return {name: getattr(self, name) for name in names}

    def makes_new_version(self, spec: BatchInferenceSpec) -> bool:
        """Whether all that is published is replaced."""
        return not self.redrive and (self.replace_output or spec.sink.mode == "replace")

    @property
    def scheduled_iso(self) -> str | None:
        """The scheduled time as reports name it."""
        return self.scheduled_time.isoformat() if self.scheduled_time else None


@dataclass(frozen=True)
class PlannedRun:
    """A run with its plan."""

    spec: BatchInferenceSpec
    run_key: str
    """What makes two calls the same run."""
    config: str
    """Digest of all that decides a prediction, as the ledger keeps it."""
    plan: Plan
    inputs_skipped: int
    """Published already; of a redrive, changed or gone since."""
    options: RunOptions
    """How to plan it again, should an input change."""
    replaces: bool
    """Whether it makes a complete new version."""
    rows_before: int
    """Rows that earlier attempts had settled when this run was planned."""

    @property
    def run(self) -> RunFolder:
        """The run's folder."""
        return self.output.run(run_id_of(self.run_key))

    @property
    def is_cut(self) -> bool:
        """Whether its rows are kept by a job of its own before another one predicts."""
        options = self.options
        wanted = self.spec.stages.preprocess.materialize
        return wanted and options.limit is None and not options.redrive

    @property
    def stages(self) -> tuple[str, ...]:
        """What its own job does."""
        return AFTER_CUT if self.is_cut else STAGES

    @property
    def storage(self) -> FsspecStorage:
        """Storage of the output."""
        return output_of(self.spec)[0]

    @property
    def output(self) -> OutputFolder:
        """The output's folders."""
        return output_of(self.spec)[1]

    @cached_property
    def ledger(self) -> DeltaLedger:
        """The output's ledger."""
        return ledger_of(self.spec)

    @property
    def pinned_model(self) -> Model:
        """The model as planned: its weights are those whose fingerprint the plan has."""
        return self.spec.model.pinned(self.plan.pins["fingerprints"]["model"])

    @property
    def nothing_to_do(self) -> bool:
        """Whether every input is published already."""
        return len(self.plan.shards) == 0 and not self.replaces

    @property
    def summary(self) -> str:
        """What there is to do, in a line."""
        known = self.plan.pins["known_rows"]
        inputs = len(set(self.plan.shards["path"].to_pylist()))
        rows = f", {known:,} rows" if known is not None else ""
        why = "changed or gone since" if self.options.redrive else "published already"
        return f"{inputs:,} to do{rows}, {self.inputs_skipped:,} {why}"

    def accepted(self) -> Accepted:
        """What the records cover now."""
        return accept(records_of(self.storage, self.run), self.plan)

    def gap(self, accepted: Accepted, *, retry_rejected: bool) -> Gap:
        """What they do not cover."""
        return find_gap(self.plan, accepted, retry_rejected=retry_rejected)


def ledger_of(spec: BatchInferenceSpec) -> DeltaLedger:
    """The output's ledger."""
    storage, output = output_of(spec)
    url = output.ledger if storage.is_local else storage.filesystem.unstrip_protocol(output.ledger)
    return DeltaLedger(url, spec.sink.storage_options)


def make_plan(
    spec: BatchInferenceSpec, options: RunOptions | None = None, *, save: bool = True
) -> PlannedRun:
    """Plan a run, or pick up the unfinished one; nothing expensive is started.

    Args:
        spec: what to run.
        options: how it was called.
        save: whether to leave the plan in the run's folder; else nothing is written there.

    Raises:
        InvalidSpec: the spec does not fit its inputs, its output or this machine.
        UnfinishedRun: another spec's run is unfinished here.
        OutputHeld: another spec's run is at work here.
    """
    options = options or RunOptions()
    fingerprints = check_spec(spec)
    storage, output = output_of(spec)
    seen = bring_up_to_date(storage, ledger_of(spec), output)
    if seen.version == 0 and save:
        try_output(storage, output)
    replaces = options.makes_new_version(spec)
    config = config_digest(spec, fingerprints, options.limit)
    if not (replaces or options.redrive):
        refuse_other_config(seen, config)
    given_up = abandoned_runs(storage, output, seen, restart=options.restart)
    run_key = key_of(spec, options, config, seen, given_up)
    run = output.run(run_id_of(run_key))
    old = load_plan(storage, run)
    work = work_of(spec, options, seen, old)
    refuse_other_run(storage, output, seen, run_key, options.call, spec)
    pins = {"fingerprints": fingerprints, "ledger_version": seen.version, "limit": options.limit}
    plan = work.plan(old, pins)
    if replaces or rows_may_leave(spec, options, seen, plan):
        refuse_moved(output.table, seen)
    if len(plan.shards):
        schema = published_schema(seen, replaces)
        check_schema(spec, storage, run, schema)
        if save:
            plan = save_and_reload(storage, run, plan)
            save_header(storage, run, run_key, options.call, spec, seen.version)
            pin_schema(storage, run, schema)
    return PlannedRun(
        spec=spec,
        run_key=run_key,
        config=config,
        plan=plan,
        inputs_skipped=work.skipped,
        # To give up unfinished runs twice would give up this one.
        options=replace(options, restart=False),
        replaces=replaces,
        rows_before=rows_settled(storage, run, plan),
    )


def key_of(
    spec: BatchInferenceSpec,
    options: RunOptions,
    config: str,
    seen: Snapshot,
    given_up: list[str],
) -> str:
    """What makes two calls the same run.

    Args:
        spec: what to run.
        options: how it was called.
        config: digest of all that decides a prediction.
        seen: what is published.
        given_up: runs on this version of the output that are not to be gone on with.
    """
    kind_of_work = SetAside if options.redrive else NewInputs
    replaces = options.makes_new_version(spec)
    return digest([config, kind_of_work.key(spec), seen.version, replaces, given_up])


def rows_may_leave(
    spec: BatchInferenceSpec, options: RunOptions, seen: Snapshot, plan: Plan
) -> bool:
    """Whether published rows may have to make room for the plan's."""
    if spec.sink.row_key:
        return bool(len(plan.shards) and seen.files)
    return not options.redrive and seen.holds(plan.shards["path"])


def rows_settled(storage: FsspecStorage, run: RunFolder, plan: Plan) -> int:
    """Rows that earlier attempts have recorded."""
    return len(accept(records_of(storage, run), plan).settled) if len(plan.shards) else 0


def work_of(
    spec: BatchInferenceSpec, options: RunOptions, seen: Snapshot, old: Plan | None
) -> NewInputs | SetAside:
    """What the run is to do.

    Args:
        spec: what to run.
        options: how it was called.
        seen: what is published.
        old: the plan of an earlier attempt at the same run.
    """
    if options.redrive:
        return SetAside.find(spec, seen)
    replaces = options.makes_new_version(spec)
    return NewInputs.find(spec, seen, replaces=replaces, limit=options.limit, old=old)


def records_of(storage: FsspecStorage, run: RunFolder) -> list[Record]:
    """The run's records, all of one schema."""
    return of_pinned_schema(storage, run, load_records(storage, run))


def run_id_of(run_key: str) -> str:
    """A run's id, derived from its key."""
    return run_key[:16]
