"""What is left to do: list the inputs, subtract what is published and recorded, pin the rest."""

import hashlib
import json
import time
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.gates.gate import check_columns
from tasks.kinds.models import Model
from tasks.new_inputs import NewInputs
from tasks.output_trial import try_output
from tasks.preflight import check_spec
from tasks.protocol.acceptance import Accepted, Gap, accept, find_gap
from tasks.protocol.applying import bring_up_to_date
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.layout import OutputFolder, RunFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import Plan, load_plan, save_plan
from tasks.protocol.records import Record, load_records
from tasks.protocol.storage import FsspecStorage
from tasks.protocol.table import refuse_moved
from tasks.ray_job.counts import AFTER_CUT, STAGES
from tasks.ray_job.job import output_of
from tasks.ray_job.writing import of_pinned_schema, pinned
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
    config: str
    plan: Plan
    inputs_skipped: int
    options: RunOptions
    """How to plan it again, should an input change."""
    replaces: bool
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
        return f"{inputs:,} to do{rows}, {self.inputs_skipped:,} published already"

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
    kind_of_work = SetAside if options.redrive else NewInputs
    run_key = digest([config, kind_of_work.key(spec), seen.version, replaces, given_up])
    run = output.run(run_id_of(run_key))
    old = load_plan(storage, run)
    work = work_of(spec, options, seen, old)
    refuse_other_run(storage, output, seen, run_key, options.call, spec)
    pins = {"fingerprints": fingerprints, "ledger_version": seen.version, "limit": options.limit}
    plan = work.plan(old, pins)
    if replaces or (not options.redrive and seen.holds(plan.shards["path"])):
        refuse_moved(output.table, seen)
    if len(plan.shards):
        check_gates(spec, storage, run, published_schema(seen, replaces))
    if len(plan.shards) and save:
        plan = save_and_reload(storage, run, plan)
        save_header(storage, run, run_key, options.call, spec, seen.version)
        pin_schema(storage, run, seen, replaces)
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


def save_and_reload(storage: FsspecStorage, run: RunFolder, plan: Plan) -> Plan:
    """Save a plan; of two that were made at once, take the one that counts.

    Where its inputs are not what lies there, reading says so and the run is planned anew.
    """
    save_plan(storage, run, plan)
    found = load_plan(storage, run)
    # A listing may lag behind; then our own plan counts.
    return found if found and len(found.ancestors) >= len(plan.ancestors) else plan


def digest(parts: Any) -> str:
    """JSON values in 32 characters."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def run_id_of(run_key: str) -> str:
    """A run's id, derived from its key."""
    return run_key[:16]


def config_digest(spec: BatchInferenceSpec, fingerprints: dict[str, str], limit: int | None) -> str:
    """All that decides what a row's prediction is, but not which rows there are."""
    return digest(
        [
            [step.model_dump(mode="json") for step in spec.steps],
            spec.model.model_dump(mode="json", exclude={*spec.model.not_in_identity}),
            spec.sink.model_dump(mode="json", exclude={*spec.sink.not_in_identity}),
            spec.resources.dtype,
            fingerprints,
            limit,
            *([] if spec.source.cut is None else [spec.source.cut]),
        ]
    )


def model_digest(model: Model, fingerprint: str) -> str:
    """What decides which vectors a model makes: its settings, weights and code, not their place.

    Args:
        model: as the spec has it.
        fingerprint: of its weights.
    """
    place = {"name_or_path", "path", "revision"}
    settings = model.model_dump(mode="json", by_alias=True, exclude=place, exclude_defaults=True)
    return digest([settings, fingerprint, model.code_digest()])


def refuse_other_config(seen: Snapshot, config: str) -> None:
    """Never mix the predictions of two models or configs in one output.

    Raises:
        InvalidSpec: says since when, and the way out.
    """
    version = other_config(seen, config)
    if version is not None:
        raise InvalidSpec(
            "model, steps, sink or code differ, or how the source is cut into inputs, from those "
            f"that published version {version} (run {seen.entries[version]['run_id']}): "
            "`batch-inference backfill SPEC` (or --replace-output) to predict every input again, "
            "or use another sink.path"
        )


def other_config(seen: Snapshot, config: str) -> int | None:
    """The first version of what is published that another model or config made."""
    entries = {v: e for v, e in seen.entries.items() if v >= seen.base}
    return next((v for v, e in entries.items() if e.get("config") not in (None, config)), None)


def save_header(
    storage: FsspecStorage,
    run: RunFolder,
    key: str,
    call: dict[str, Any],
    spec: BatchInferenceSpec,
    version: int,
) -> None:
    """Say what the run is, for whoever finds it unfinished."""
    if storage.stat(run.header) is None:
        header = {
            "run_key": key,
            "run_id": run.run_id,
            "ledger_version": version,
            "call": call,
            "created": time.time(),
            "spec": spec.model_dump(mode="json", by_alias=True),
        }
        storage.write(run.header, json.dumps(header).encode())


def pin_schema(storage: FsspecStorage, run: RunFolder, seen: Snapshot, replaces: bool) -> None:
    """Give the run the schema of what is published, so that versions fit each other."""
    schema = published_schema(seen, replaces)
    if schema and not storage.list(run.schemas):
        storage.write(f"{run.schemas}/{0:020d}-published.arrow", schema)


def published_schema(seen: Snapshot, replaces: bool) -> bytes | None:
    """The schema of what is published; None where nothing is that the run must fit."""
    if replaces or not seen.entries:
        return None
    schema = seen.entries[max(seen.entries)].get("schema")
    return bytes.fromhex(schema) if schema else None


def check_gates(
    spec: BatchInferenceSpec, storage: FsspecStorage, run: RunFolder, published: bytes | None
) -> None:
    """See that the gates fit the output, where its schema is known already.

    Raises:
        InvalidSpec: a gate looks at a column that the output does not have.
    """
    schema = pinned(storage, run) if spec.gates else None
    if schema is None and spec.gates and published:
        schema = pa.ipc.read_schema(pa.py_buffer(published))
    if schema is not None:
        check_columns(spec.gates, schema)
