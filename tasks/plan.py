"""What is left to do: list the inputs, subtract what is published and recorded, pin the rest."""

import hashlib
import json
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from tasks.errors import InvalidSpec, OutputHeld, UnfinishedRun
from tasks.kinds.sources.listing import list_inputs
from tasks.lease import holder_of
from tasks.preflight import check_spec
from tasks.protocol.acceptance import Accepted, Gap, accept, find_gap
from tasks.protocol.applying import bring_up_to_date
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.layout import OutputFolder, RunFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import Plan, Shard, first_plan, load_plan, save_plan, supersede
from tasks.protocol.records import load_records
from tasks.protocol.storage import FsspecStorage, Stat
from tasks.ray_job.job import output_of
from tasks.spec import BatchInferenceSpec


@dataclass(frozen=True)
class RunOptions:
    """How a run was called; none of it is part of the spec."""

    restart: bool = False
    """Start anew where another run is unfinished; nothing published is lost."""
    replace_output: bool = False
    """Make this run a complete new version."""


@dataclass(frozen=True)
class PlannedRun:
    """A run with its plan."""

    spec: BatchInferenceSpec
    run_key: str
    config: str
    plan: Plan
    inputs_skipped: int
    replaces: bool
    rows_before: int
    """Rows that earlier attempts had settled when this run was planned."""

    @property
    def run(self) -> RunFolder:
        """The run's folder."""
        return self.output.run(run_id_of(self.run_key))

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
    def nothing_to_do(self) -> bool:
        """Whether every input is published already."""
        return len(self.plan.shards) == 0 and not self.replaces

    def accepted(self) -> Accepted:
        """What the records cover now."""
        return accept(load_records(self.storage, self.run), self.plan)

    def gap(self, accepted: Accepted, *, retry_rejected: bool) -> Gap:
        """What they do not cover."""
        return find_gap(self.plan, accepted, retry_rejected=retry_rejected)


def ledger_of(spec: BatchInferenceSpec) -> DeltaLedger:
    """The output's ledger."""
    storage, output = output_of(spec)
    url = output.ledger if storage.is_local else storage.filesystem.unstrip_protocol(output.ledger)
    return DeltaLedger(url, spec.sink.storage_options)


def make_plan(spec: BatchInferenceSpec, options: RunOptions | None = None) -> PlannedRun:
    """Plan a run, or pick up the unfinished one; nothing expensive is started.

    Raises:
        InvalidSpec: the spec does not fit its inputs, its output or this machine.
        UnfinishedRun: another spec's run is unfinished here.
        OutputHeld: another spec's run is at work here.
    """
    options = options or RunOptions()
    fingerprints = check_spec(spec)
    storage, output = output_of(spec)
    seen = bring_up_to_date(storage, ledger_of(spec), output)
    replaces = options.replace_output or spec.sink.mode == "replace"
    config = config_digest(spec, fingerprints)
    if not replaces:
        refuse_other_config(seen, config)
    inputs_storage, inputs = list_inputs(spec.source)
    left = inputs if replaces else unpublished(inputs, seen)
    given_up = abandoned_runs(storage, output, seen, restart=options.restart)
    source = spec.source.model_dump(mode="json")
    run_key = digest([config, source, seen.version, replaces, given_up])
    refuse_other_run(storage, output, seen, run_key, spec)
    run = output.run(run_id_of(run_key))
    plan = resume_plan(storage, run, spec, seen.version, inputs_storage, left, fingerprints)
    if left:
        save_plan(storage, run, plan)
        save_header(storage, run, run_key, spec, seen.version)
        pin_schema(storage, run, seen, replaces)
    before = accept(load_records(storage, run), plan) if left else None
    return PlannedRun(
        spec=spec,
        run_key=run_key,
        config=config,
        plan=plan,
        inputs_skipped=len(inputs) - len(left),
        replaces=replaces,
        rows_before=len(before.settled) if before else 0,
    )


def digest(parts: Any) -> str:
    """JSON values in 32 characters."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def run_id_of(run_key: str) -> str:
    """A run's id, derived from its key."""
    return run_key[:16]


def config_digest(spec: BatchInferenceSpec, fingerprints: dict[str, str]) -> str:
    """All that decides what a row's prediction is, but not which rows there are."""
    return digest(
        [
            [step.model_dump(mode="json") for step in spec.steps],
            spec.model.model_dump(mode="json"),
            spec.sink.model_dump(mode="json", exclude={"path", "storage_options", "rows_per_file"}),
            spec.resources.dtype,
            fingerprints,
        ]
    )


def refuse_other_config(seen: Snapshot, config: str) -> None:
    """Never mix the predictions of two models or configs in one output.

    Raises:
        InvalidSpec: says since when, and the way out.
    """
    entries = {v: e for v, e in seen.entries.items() if v >= seen.base}
    for version, entry in entries.items():
        if entry.get("config") not in (None, config):
            raise InvalidSpec(
                f"model, steps, sink or code differ from those that published version {version} "
                f"(run {entry['run_id']}): use another sink.path, or --replace-output to predict "
                "every input again"
            )


def unpublished(inputs: list[Stat], seen: Snapshot) -> list[Stat]:
    """Inputs that are new or have changed since they were published."""
    table = seen.inputs.select(["path", "identity"])
    known = set(zip(table["path"].to_pylist(), table["identity"].to_pylist(), strict=True))
    return [stat for stat in inputs if (stat.path, stat.identity) not in known]


def abandoned_runs(
    storage: FsspecStorage, output: OutputFolder, seen: Snapshot, *, restart: bool
) -> list[str]:
    """Runs given up on this version of the output; with `restart` the unfinished ones too."""
    headers = run_headers(storage, output, seen)
    if restart:
        for header in headers:
            refuse_live(storage, output, header)
            storage.write(f"{output.run(header['run_id']).path}/abandoned", b"")
            header["abandoned"] = True
    return sorted(header["run_id"] for header in headers if header["abandoned"])


def refuse_live(storage: FsspecStorage, output: OutputFolder, header: dict[str, Any]) -> None:
    """Raise OutputHeld where somebody is at work on a run."""
    holder = holder_of(storage, output.run(header["run_id"]))
    if holder:
        raise OutputHeld(
            f"{output.path} is held by run {header['run_id']}, at work in {holder}; wait for it, "
            "or stop it first"
        )


def run_headers(
    storage: FsspecStorage, output: OutputFolder, seen: Snapshot
) -> list[dict[str, Any]]:
    """Runs that build on the output as it is and are not published."""
    headers = []
    stats = storage.list(output.runs)
    given_up = {stat.path for stat in stats if stat.path.endswith("/abandoned")}
    for stat in stats:
        if not stat.path.endswith("/run.json"):
            continue
        header = json.loads(storage.read(stat.path))
        if header["ledger_version"] == seen.version and not seen.version_of(header["run_key"]):
            run = output.run(header["run_id"])
            headers.append({**header, "abandoned": f"{run.path}/abandoned" in given_up})
    return headers


def refuse_other_run(
    storage: FsspecStorage,
    output: OutputFolder,
    seen: Snapshot,
    run_key: str,
    spec: BatchInferenceSpec,
) -> None:
    """Refuse to start beside another spec's unfinished run.

    Raises:
        OutputHeld: it is at work.
        UnfinishedRun: it is not; says what differs, and the ways out.
    """
    for header in run_headers(storage, output, seen):
        if header["run_key"] == run_key or header["abandoned"]:
            continue
        refuse_live(storage, output, header)
        raise UnfinishedRun(
            f"{output.path} has the unfinished run {header['run_id']} of another spec; "
            f"{difference(header['spec'], spec)}. Go back to that spec to finish it, or use "
            "--restart to give it up (nothing published is lost)"
        )


def difference(old: dict[str, Any], spec: BatchInferenceSpec) -> str:
    """Which fields differ between two specs."""
    new = spec.model_dump(mode="json", by_alias=True)
    names = [name for name in ("source", "steps", "model", "sink") if old.get(name) != new[name]]
    if names:
        return f"what differs: {', '.join(names)}"
    return "what differs: the model's files, the code of steps or model, or resources.dtype"


def resume_plan(
    storage: FsspecStorage,
    run: RunFolder,
    spec: BatchInferenceSpec,
    ledger_version: int,
    inputs_storage: FsspecStorage,
    left: list[Stat],
    fingerprints: dict[str, str],
) -> Plan:
    """The run's plan: as it is, superseded where inputs have changed, or the first one."""
    old = load_plan(storage, run)
    shards = [shard for stat in left for shard in spec.source.split(inputs_storage, stat)]
    known = [shard.rows for shard in shards]
    pins = {
        "fingerprints": fingerprints,
        "ledger_version": ledger_version,
        "known_rows": None if None in known else sum(rows or 0 for rows in known),
        "reader": old.pins["reader"] if old else spec.source.pin(inputs_storage, left),
    }
    if old is None:
        return first_plan(shards, pins)
    if contents(old.shards) == [shard.content for shard in sorted(shards, key=content_key)]:
        return old
    return supersede(old, shards, pins)


def contents(shards: pa.Table) -> list[tuple[str, str, int | None, int | None]]:
    """Contents of a plan's shards, sorted."""
    columns = [shards[name].to_pylist() for name in ("path", "identity", "start", "stop")]
    return sorted(zip(*columns, strict=True), key=lambda each: (each[0], each[1], each[2] or 0))


def content_key(shard: Shard) -> tuple[str, str, int]:
    """Order of contents."""
    return shard.path, shard.identity, shard.start or 0


def save_header(
    storage: FsspecStorage, run: RunFolder, key: str, spec: BatchInferenceSpec, version: int
) -> None:
    """Say what the run is, for whoever finds it unfinished."""
    if storage.stat(run.header) is None:
        header = {
            "run_key": key,
            "run_id": run.run_id,
            "ledger_version": version,
            "created": time.time(),
            "spec": spec.model_dump(mode="json", by_alias=True),
        }
        storage.write(run.header, json.dumps(header).encode())


def pin_schema(storage: FsspecStorage, run: RunFolder, seen: Snapshot, replaces: bool) -> None:
    """Give the run the schema of what is published, so that versions fit each other."""
    if replaces or not seen.entries or storage.list(run.schemas):
        return
    schema = seen.entries[max(seen.entries)].get("schema")
    if schema:
        storage.write(f"{run.schemas}/{0:020d}-published.arrow", bytes.fromhex(schema))
