"""Gates: staged rows are judged before they are published, and held back where one fails."""

import json
import socket
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import psutil
import pyarrow as pa

from tasks.counted import counted
from tasks.errors import GateFailed
from tasks.kinds.gates.gate import Judgement, LastRun, check_columns, written
from tasks.plan import PlannedRun
from tasks.planning.baselines import last_runs
from tasks.protocol.acceptance import Accepted
from tasks.protocol.ids import Mask
from tasks.protocol.layout import RunFolder
from tasks.protocol.publication import Keys
from tasks.publishing.output_rows import OutputFile, OutputReader
from tasks.ray_job.output_schema import pinned
from tasks.reporting.addresses import named_on

NO_ROWS = {
    False: "no rows to judge",
    True: "no rows to judge, but they would replace the published rows",
}
RECORDED = ("gate", "value", "limit", "passed", "note")


def pass_gates(planned: PlannedRun, accepted: Accepted, keys: Keys | None) -> dict[str, Any]:
    """Judge a run's rows; return what its ledger entry is to record of it.

    Args:
        planned: the run.
        accepted: what its records cover.
        keys: tells which of several rows of a key is published; None where all are.

    Raises:
        GateFailed: a gate failed, and the call did not say to publish nevertheless.
        InvalidSpec: a gate looks at a column that is not there, or has nothing to compare with in
            the output that it names.
        KeysRepeated: which of several rows would be published, nobody knows.
    """
    seen = planned.ledger.look()
    if not planned.spec.gates or seen.version_of(planned.run_key):
        return {}
    try:
        chosen = keys.chosen if keys else {}
        last = last_runs(planned.spec, seen, rows_judged(planned.run, accepted, chosen))
        judged = judge(planned, accepted, chosen, last)
    except FileNotFoundError:
        # Somebody else may have published the run while we looked at its staged files.
        if planned.ledger.look().version_of(planned.run_key):
            return {}
        raise
    failed = [each for each in judged if not each.passed]
    planned.storage.write(planned.run.gates, json.dumps([asdict(each) for each in judged]).encode())
    if failed and not planned.options.accept:
        raise GateFailed(explain(planned, judged))
    columns = [gate.columns.get("column", "") for gate in planned.spec.gates]
    return {
        "gates": as_recorded(judged),
        "distributions": {
            column: each.distribution
            for column, each in zip(columns, judged, strict=True)
            if each.distribution
        },
        **({"accepted": {"failed": as_recorded(failed), **whose_word()}} if failed else {}),
    }


def judge(
    planned: PlannedRun, accepted: Accepted, chosen: Mapping[str, Mask], last: list[LastRun]
) -> list[Judgement]:
    """Run the rows that would be published past all gates at once.

    Args:
        planned: the run.
        accepted: what its records cover.
        chosen: by staged file, which of its rows are published, where that is not all of them.
        last: what to compare with, of each gate.
    """
    gates = planned.spec.gates
    schema = pinned(planned.storage, planned.run)
    files = staged_files(planned.run, accepted)
    if schema is None or not files:
        empty = pa.schema([])
        return [
            gate.judgement(None, not planned.replaces, note=NO_ROWS[planned.replaces])
            if gate.columns
            else gate.meter(empty, its_last).judge()
            for gate, its_last in zip(gates, last, strict=True)
        ]
    check_columns(gates, schema)
    meters = [gate.meter(schema, its_last) for gate, its_last in zip(gates, last, strict=True)]
    names = sorted({name for gate in gates for name in gate.columns.values()})
    reader = OutputReader(planned.storage, planned.spec.sink, schema, names)
    for file, rows in zip(files, reader.stream(files), strict=True):
        keep = mask_of(file, chosen)
        published = rows if keep is None else rows.filter(pa.array(keep))
        for meter in meters if len(published) else ():
            meter.add(published)
    return [meter.judge() for meter in meters]


def rows_judged(run: RunFolder, accepted: Accepted, chosen: Mapping[str, Mask]) -> int:
    """How many rows would be published."""
    files = [(file, mask_of(file, chosen)) for file in staged_files(run, accepted)]
    return sum(file.rows if keep is None else int(keep.sum()) for file, keep in files)


def mask_of(file: OutputFile, chosen: Mapping[str, Mask]) -> Mask | None:
    """Which of a staged file's rows are published; None where all are."""
    return chosen.get(file.path.rpartition("/")[2])


def staged_files(run: RunFolder, accepted: Accepted) -> list[OutputFile]:
    """The files whose rows would be published."""
    return [
        OutputFile(f"{run.staging}/{file.name}", file.rows, file.partition, file.size)
        for record in accepted.records
        for file in record.files
    ]


def explain(planned: PlannedRun, judged: list[Judgement]) -> str:
    """Every gate with what it found, and the way out."""
    failed = sum(not each.passed for each in judged)
    lines = [line_of(each) for each in judged]
    run = named_on(planned.storage, planned.run.path)
    staging = named_on(planned.storage, planned.run.staging)
    return "\n".join(
        [
            f"{failed} of {counted(len(judged), 'gate')} failed; nothing was published",
            *lines,
            f"The results are kept: see {run}/report.md and the rows in {staging}. Run again with "
            "--accept to publish them anyway, or fix input, model or gates and run again, with "
            "--restart if the model changed",
        ]
    )


def line_of(judged: Judgement) -> str:
    """A gate in one line."""
    value = "nothing measured" if judged.value is None else written(judged.value)
    note = f" ({judged.note})" if judged.note else ""
    state = "passed" if judged.passed else "FAILED"
    return f"  {state}  {judged.gate}: {value}, {judged.limit} is required{note}"


def as_recorded(judged: Iterable[Judgement]) -> list[dict[str, Any]]:
    """Judgements as the ledger and the report keep them."""
    return [{name: getattr(each, name) for name in RECORDED} for each in judged]


def whose_word() -> dict[str, Any]:
    """Who publishes on their word, and when: this process's user, and the run's maker, if known."""
    by = f"{psutil.Process().username()}@{socket.gethostname()}"
    run = flow_run()
    if run is None:
        return {"by": by, "at": time.time()}
    maker = run.created_by and run.created_by.display_value
    return {"by": maker or by, "at": time.time(), "flow_run_id": str(run.id)}


def flow_run() -> Any:
    """Prefect's flow run; None outside of one."""
    # Where nobody has imported Prefect there is no flow run, and importing it takes seconds.
    if "prefect" not in sys.modules:
        return None
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    return context and context.flow_run
