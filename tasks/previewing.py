"""A preview's own output: beside the real one, never published, gone when it has been shown."""

from dataclasses import replace
from typing import Any

import pyarrow as pa

from tasks.errors import InvalidSpec, KeysRepeated
from tasks.kinds.clusters import InlineCluster
from tasks.kinds.gates.rows import RowsGate
from tasks.kinds.sinks.table_sink import refuse_keyless
from tasks.kinds.tables.types import check_key, check_order
from tasks.ledgers import ledger_of
from tasks.outputs import output_of
from tasks.own_process import lacking_here
from tasks.plan import PlannedRun
from tasks.planning.baselines import last_runs
from tasks.planning.known_columns import refuse_unpublished, schema_before_model
from tasks.planning.known_types import lasting_columns
from tasks.planning.preflight import check_spec
from tasks.protocol.acceptance import Accepted
from tasks.protocol.ids import Mask
from tasks.publishing.judging import judge, line_of, rows_judged, staged_files
from tasks.publishing.output_rows import OutputReader
from tasks.publishing.rejections import excess, hint_of, load_rejections
from tasks.publishing.row_keys import keys_of
from tasks.ray_job.output_schema import pinned
from tasks.run_folder import published_schema
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tasks.spec_parts import ErrorBudget

BATCHES = 8
"""Batches that a preview is cut into: of one alone nobody can say how much batches differ."""


def trial_of(
    spec: BatchInferenceSpec, rows: int, name: str, *, on_cluster: bool = False
) -> BatchInferenceSpec:
    """The spec as a preview runs it: the same pipeline, to an output of its own.

    Args:
        spec: what a run would do.
        rows: how many rows are shown.
        name: the preview's own; it comes again after a crash.
        on_cluster: whether it goes where a run would; else it stays in this process.

    Raises:
        InvalidSpec: no rows are asked for.
    """
    if rows < 1:
        raise InvalidSpec.at("rows", rows, "must be at least 1")
    per_batch = min(spec.rows_per_batch, -(-rows // BATCHES))
    read = spec.stages.read.model_copy(update={"rows_per_batch": per_batch})
    sink = {
        "path": path_of_preview(spec, name),
        "keep_columns": None,  # inputs are to be seen beside predictions
        "rows_per_file": None,
        "mode": "append",
    }
    once = spec.retries.model_copy(update={"max_attempts": 1})
    return spec.model_copy(
        update={
            # Its artifacts are not to stand among those of runs.
            "name": f"{spec.name}-preview",
            "sink": spec.sink.as_files().model_copy(update=sink),
            "stages": spec.stages.model_copy(update={"read": read}),
            # Here it fails again as it did, while somebody waits; on a cluster nodes may go.
            **({} if on_cluster else {**here(spec), "retries": once}),
            # Rows that are set aside are what somebody wants to see.
            "errors": ErrorBudget(max_rejected_fraction=1),
            "gates": [],
        }
    )


def path_of_preview(spec: BatchInferenceSpec, name: str) -> str:
    """Where a preview's output lies, as a spec would name it."""
    return f"{spec.sink.path}.state/previews/{name}"


def here(spec: BatchInferenceSpec) -> dict[str, Any]:
    """What brings a spec into this process: one replica.

    It has a core, where nobody asks for more: from one the estimate reckons what a run's have. A
    few rows need no more memory than there is.
    """
    if isinstance(spec.cluster, InlineCluster):
        return {}
    one = {"num_cpus": float(spec.resources.cores), "min_replicas": 1, "memory_gb": None}
    resources = spec.resources.model_copy(update=one)
    return {"cluster": InlineCluster(), "resources": resources}


def check_preview(spec: BatchInferenceSpec, rows: int, *, on_cluster: bool) -> None:
    """Find what is wrong with a preview before anything starts for it.

    Raises:
        InvalidSpec: the spec or the call is wrong.
        Unreachable: a storage or the cluster does not answer.
    """
    trial = trial_of(spec, rows, "check", on_cluster=on_cluster)
    if not on_cluster:
        refuse_unlike(spec)
    check_spec(trial)


def refuse_unlike(spec: BatchInferenceSpec) -> None:
    """Refuse to preview in this process what needs another place, where that would show nothing.

    Raises:
        InvalidSpec: names the field, and the ways out.
    """
    if isinstance(spec.cluster, InlineCluster):
        return
    for field, value in lacking_here(spec).items():
        problem = (
            "is not possible in this process, where previews run: --cluster (on_cluster) runs "
            f"the preview where a run would, on cluster.kind {spec.cluster.kind}; or change the "
            "field for the preview with --set"
        )
        raise InvalidSpec.at(field, value, problem)


def measured_where(spec: BatchInferenceSpec, trial: BatchInferenceSpec) -> str:
    """What a preview's figures are of.

    Args:
        spec: what a run would do.
        trial: what the preview did.
    """
    kind = spec.cluster.kind
    if trial.cluster.kind == kind:
        return "in this process, as a run would go" if kind == "inline" else f"on cluster {kind}"
    return (
        f"in this process, on this machine's CPUs, not on cluster {kind}, where a run would go: "
        "preview with --cluster (on_cluster) measures there"
    )


def staged_rows(planned: PlannedRun) -> pa.Table | None:
    """All rows that a run has recorded, in their order; None where there are none."""
    rows = staged_with_ids(planned, "__row")
    return None if rows is None else rows.drop_columns("__row")


def staged_with_ids(planned: PlannedRun, column: str) -> pa.Table | None:
    """The same, with their ids as a column more."""
    schema = pinned(planned.storage, planned.run)
    accepted = planned.accepted()
    files = staged_files(planned.run, accepted)
    if schema is None or not files:
        return None
    reader = OutputReader(planned.storage, planned.spec.sink, schema, schema.names)
    ids = [file.ids.ids() for record in accepted.records for file in record.files]
    rows = pa.concat_tables(reader.stream(files)).append_column(
        column, pa.concat_arrays([pa.array(each, pa.int64()) for each in ids])
    )
    return rows.sort_by(column)


def held_back(planned: PlannedRun, spec: BatchInferenceSpec) -> list[str]:
    """Why a run would publish nothing if all its rows were like a preview's; empty where it would.

    Args:
        planned: the preview's run.
        spec: what a run would do.
    """
    accepted = planned.accepted()
    strict = replace(planned, spec=planned.spec.model_copy(update={"errors": spec.errors}))
    is_all = saw_all(planned)
    too_many = excess(strict, accepted, is_part=not is_all)
    aside = load_rejections(planned, accepted) if too_many else None
    found = [". ".join(filter(None, [too_many, hint_of(planned, aside)]))] if aside else []
    replaces = RunOptions().makes_new_version(spec)
    if not (len(planned.plan.shards) or replaces):
        return found  # a run would have nothing to do
    trial = planned.spec.model_copy(update={"gates": spec.gates})
    try:
        seen = ledger_of(spec).look()
        refuse_unmade(planned, spec, published_schema(seen, replaces))
        chosen = rows_chosen(planned, spec, accepted)
        last = last_runs(spec, seen, rows_judged(planned.run, accepted, chosen))
        judged = judge(replace(planned, spec=trial, replaces=replaces), accepted, chosen, last)
    except (InvalidSpec, KeysRepeated) as error:  # a column is not there, or says too little
        return [*found, str(error)]
    knows_rows = is_all or not staged_files(planned.run, accepted)
    return found + [
        line_of(each).strip()
        for gate, each in zip(spec.gates, judged, strict=True)
        if not each.passed and (knows_rows or not isinstance(gate, RowsGate))
    ]


def refuse_unmade(planned: PlannedRun, spec: BatchInferenceSpec, published: bytes | None) -> None:
    """See that a run's rows would have the columns that sink and gates name.

    Which ones a class of one's own makes no plan knows: a run would fail on its first batch. The
    preview keeps all columns, whatever the spec says.

    Args:
        planned: the preview's run.
        spec: what a run would do.
        published: the output's schema; None where a run need not fit it.

    Raises:
        InvalidSpec: they would not.
    """
    schema = pinned(planned.storage, planned.run)
    if schema is None:
        return
    known = schema_before_model(spec, planned.plan.pins["reader"])
    if known is not None:
        made = tuple(name for name in schema.names if name not in known.names)
        refuse_unpublished(spec, known.names, made, lasting_columns(spec, published))


def rows_chosen(
    planned: PlannedRun, spec: BatchInferenceSpec, accepted: Accepted
) -> dict[str, Mask]:
    """By a preview's file, which of its rows a run would publish, where that is not all of them.

    Raises:
        InvalidSpec: a row has no key, or none by which it can be known.
        KeysRepeated: which of several rows of a key a run would publish, nobody knows.
    """
    keys = keys_of(planned, accepted, spec.sink)
    if keys is None:
        return {}
    check_key(keys.reader.schema, keys.key)
    check_order(keys.reader.schema, keys.newest_by)
    refuse_keyless(keys.own.select(keys.numbered).rename_columns(keys.key), keys.key)
    return keys.chosen


def saw_all(planned: PlannedRun) -> bool:
    """Whether a preview has as many rows as a run of all inputs, of which there are no others."""
    rows, asked = planned.plan.known_rows, planned.options.limit
    return rows is not None and asked is not None and rows < asked


def clear_away(spec: BatchInferenceSpec) -> None:
    """Delete all that a preview has left behind."""
    storage, output = output_of(spec)
    storage.delete_folder(output.state)
