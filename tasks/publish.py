"""Audit, judge, then commit: all rows or none."""

import io
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.config import config_digests, model_digest
from tasks.counted import counted
from tasks.errors import ErrorBudgetExceeded, RowsMissing
from tasks.history import with_history
from tasks.judging import pass_gates
from tasks.kinds.sources.table_reading.carried import GONE
from tasks.plan import PlannedRun
from tasks.protocol.acceptance import Accepted
from tasks.protocol.publication import Publication
from tasks.protocol.publishing import publish
from tasks.protocol.rewriting import as_they_are
from tasks.ray_job.output_schema import pinned
from tasks.ray_job.writing import QUARANTINE
from tasks.reading import reading_of
from tasks.row_keys import keys_of

EXAMPLES = 3
place = itemgetter("source", "row")
SHOWN = ["source", "row", "stage", "error_type", "error_message"]
"""Columns of a quarantine file, without those that may be large."""
SELDOM_OF_DATA = (
    *("AttributeError", "NameError", "UnboundLocalError", "TypeError", "KeyError", "IndexError"),
    *("NotImplementedError", "AssertionError"),
)
"""What code raises that is wrong itself, or takes its batch for something else."""
ENOUGH_ROWS = 24
"""To say what a run's rows are like, before all have been tried."""


@dataclass
class Rejections:
    """Rows that stayed rejected: how many of each kind, and the first of these.

    A kind is a stage and an error's type. However many rows there are, few are held.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    first: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    """By source and row."""

    def add(self, data: bytes, keep: list[bool] | None = None) -> None:
        """Add the rows of a quarantine file, or some of them."""
        rows = pq.read_table(io.BytesIO(data), columns=SHOWN)
        rows = rows if keep is None else rows.filter(pa.array(keep, pa.bool_()))
        for row in rows.to_pylist():
            kind = row["stage"], row["error_type"]
            self.counts[kind] += 1
            first = [*self.first.get(kind, ()), row]
            self.first[kind] = sorted(first, key=place)[:EXAMPLES]

    @property
    def kinds(self) -> list[tuple[tuple[str, str], int, list[dict[str, Any]]]]:
        """Each kind, how many there are and the first of them; the most frequent first."""
        kinds = [(kind, self.counts[kind], first) for kind, first in self.first.items()]
        return sorted(kinds, key=lambda each: (-each[1], place(each[2][0])))

    @property
    def by_stage(self) -> Counter[str]:
        """How many rows each stage set aside."""
        found: Counter[str] = Counter()
        for (stage, _), count in self.counts.items():
            found[stage] += count
        return found


def publish_planned(planned: PlannedRun) -> int:
    """Publish a run whose records cover its plan; return the output's version.

    Raises:
        ErrorBudgetExceeded: too many rows were set aside; says which errors and which rows.
        GateFailed: a gate does not let the rows pass; says what each gate found.
        InvalidSpec: others have changed the output's table.
        KeysRepeated: two rows have the same key, and replace published ones by it.
        OutputHeld: another run has published the same inputs meanwhile, or another model's
            predictions; or somebody gave this run up.
        RowsMissing: a record that came late has left a gap, or has other types; another attempt
            closes it.
    """
    schema, accepted = schema_hex(planned), planned.accepted()
    check_budget(planned, accepted)
    keys = keys_of(planned, accepted)
    judged = pass_gates(planned, accepted, keys) if brings_rows_to_judge(planned) else {}
    check_table(planned)
    planned.refuse_given_up()
    if schema_hex(planned) != schema:
        raise RowsMissing("a late writer had rows that the output's types do not take: run again")
    sink, pins = planned.spec.sink, planned.plan.pins
    return publish(
        planned.storage,
        planned.ledger,
        planned.output,
        Publication(
            run_key=planned.run_key,
            run=planned.run,
            plan=planned.plan,
            accepted=accepted,
            suffix=sink.suffix,
            drop_rows=sink.drop_rows,
            drop_rejections=QUARANTINE.drop_rows,
            replaces=planned.replaces,
            amend_rejections=with_history(planned) if planned.plan.redrives else as_they_are,
            keys=keys,
            rows=count_rows(accepted),
            configs=config_digests(planned.spec, pins["fingerprints"], planned.options.limit),
            details=details(planned, schema) | judged,
        ),
    )


def details(planned: PlannedRun, schema: str | None) -> dict[str, Any]:
    """What the ledger keeps of a run beside its rows, for later runs and for whoever asks."""
    spec, redrives = planned.spec, planned.plan.redrives
    fingerprint = planned.plan.pins["fingerprints"]["model"]
    return {
        # A redrive may use another model, on purpose: it is no measure for later runs.
        "config": None if redrives else planned.config,
        "reading": None if redrives else reading_of(spec.source),
        "name": spec.name,
        "published_at": time.time(),
        "flow_runs": planned.options.flow_runs,
        "model": fingerprint,
        "model_digest": model_digest(spec.model, fingerprint),
        "schema": schema,
    }


def brings_rows_to_judge(planned: PlannedRun) -> bool:
    """Whether the run is one that gates are about.

    What a redrive brings in is a handful of rows, and the rest of its run has passed them. And
    where inputs have only gone from a table, there is nothing new.
    """
    identities = planned.plan.shards["identity"].unique().to_pylist()
    return not planned.plan.redrives and identities != [GONE]


def check_table(planned: PlannedRun) -> None:
    """See that the output's table, where it is one, still takes the rows, before it is decided.

    Raises:
        InvalidSpec: others have changed its columns since the run was planned.
    """
    schema = pinned(planned.storage, planned.run) if planned.output.table else None
    if schema is not None and not planned.ledger.look().version_of(planned.run_key):
        planned.spec.sink.schema_for(schema)


def count_rows(accepted: Accepted) -> dict[str, int]:
    """Rows by what became of them; written counts children one by one.

    Of an upsert the ledger's entry says more: which of the rows newer ones have superseded.
    """
    written = sum(file.rows for record in accepted.records for file in record.files)
    rejected, filtered = len(accepted.rejected), len(accepted.filtered)
    read = len(accepted.ok) + rejected + filtered
    return {"read": read, "written": written, "rejected": rejected, "filtered": filtered}


def schema_hex(planned: PlannedRun) -> str | None:
    """The run's output schema, as the ledger keeps it for the next run."""
    found = planned.storage.list(planned.run.schemas)
    return planned.storage.read(found[0].path).hex() if found else None


def check_budget(planned: PlannedRun, accepted: Accepted) -> None:
    """Hold a run back that set aside too many rows.

    Raises:
        ErrorBudgetExceeded: says how many, which errors, and the first rows of each.
    """
    rows = count_rows(accepted)
    budget = planned.spec.errors
    if budget.allows(rows["rejected"], rows["read"]):
        return
    error = ErrorBudgetExceeded(
        f"{rows['rejected']:,} of {counted(rows['read'], 'row')} set aside, more than "
        f"errors.max_rejected_fraction {budget.max_rejected_fraction} allows; nothing was published"
    )
    raise with_rows(planned, error)


def with_rows(planned: PlannedRun, error: ErrorBudgetExceeded) -> ErrorBudgetExceeded:
    """The error with which errors and which rows, and the way out."""
    accepted = planned.accepted()
    rejections = load_rejections(planned, accepted)
    way_out = "Mend the input or the spec and run again, or raise the budget to publish the rest"
    if is_likely_the_code(planned, accepted, rejections):
        way_out = (
            "No row came through and all failed alike, with what is seldom the data's fault: it is "
            "likely the code; mend it, or what the spec hands it, and run again"
        )
    return ErrorBudgetExceeded("\n".join([error.message, *error_lines(rejections), way_out]))


def is_likely_the_code(planned: PlannedRun, accepted: Accepted, rejections: Rejections) -> bool:
    """Whether all rows, or many and no other, failed with one error that data seldom leads to."""
    if len(accepted.ok) or len(rejections.counts) != 1:
        return False
    ((_, error_type),) = rejections.counts
    is_enough = len(accepted.rejected) >= ENOUGH_ROWS
    is_enough = is_enough or not planned.gap(accepted, retry_rejected=False)
    return is_enough and error_type in SELDOM_OF_DATA


def error_lines(rejections: Rejections) -> list[str]:
    """The errors, most frequent first, each with the first of its rows."""
    lines = []
    for (stage, error_type), count, first in rejections.kinds:
        lines.append(f"  {count} x {error_type} in {stage}: {first[0]['error_message']}")
        lines += [f"      {row['source']}, row {row['row']}" for row in first]
        if count > EXAMPLES:
            lines.append(f"      and {count - EXAMPLES} more")
    return lines


def load_rejections(planned: PlannedRun, accepted: Accepted) -> Rejections:
    """The rows that stayed rejected, from the staged quarantine files: before publishing only."""
    left = set(accepted.rejected.ids().tolist())
    found = Rejections()
    for record in reversed(accepted.records):
        if record.quarantine is None:
            continue
        ids = record.quarantine.ids.ids().tolist()
        data = planned.storage.read(f"{planned.run.staging}/{record.quarantine.name}")
        keep = []
        for id_ in ids:
            keep.append(id_ in left)
            left.discard(id_)
        found.add(data, keep)
    return found


def write_manifest(planned: PlannedRun, manifest: dict[str, Any]) -> str:
    """Store what happened beside the output; return where."""
    path = planned.output.manifest(planned.run.run_id)
    planned.storage.write(path, json.dumps(manifest, indent=2, default=str).encode())
    return path


def sample_rows(planned: PlannedRun, accepted: Accepted, count: int) -> pa.Table | None:
    """Some of the run's rows, published or held back, to look at; None where there are none.

    A version that was replaced since has none any more.
    """
    snapshot = planned.ledger.look()
    mine = [f for f in snapshot.files.values() if f.run_id == planned.run.run_id]
    paths = [file.target(planned.output) for file in mine]
    if snapshot.version_of(planned.run_key) is None:
        files = [file for record in accepted.records for file in record.files]
        paths = [f"{planned.run.staging}/{file.name}" for file in files]
    for path in paths:
        rows = planned.spec.sink.decode(planned.storage.read(path))
        if len(rows):
            return rows.slice(0, count)
    return None
