"""Some published rows, and a run beside the output that predicts them again."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.errors import InvalidSpec
from tasks.plan import PlannedRun, output_as_it_stands
from tasks.planning.config import config_digests, digest
from tasks.planning.known_types import lasting_columns
from tasks.planning.preflight import check_spec
from tasks.planning.redrive import SetAside
from tasks.previewing import refuse_unlike, trial_of
from tasks.protocol.ids import (
    ROW_BITS,
    IdRuns,
    Ids,
    Mask,
    RowsByRun,
    are_in,
    by_run,
    row_of,
    shard_of,
)
from tasks.protocol.ledger import Snapshot
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.plan_file import load_plan
from tasks.publishing.output_rows import OutputFile, OutputReader
from tasks.ray_job.job import output_of
from tasks.run_folder import pin_schema, run_id_of, save_and_reload, save_header
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tasks.timeouts import at_output

PLACES = 8
"""In all that is published, from the first row to the last: nights differ, and so do files."""
ROWS_AT_ONCE = 4_096
ROW = "__row"
GONE = (
    "is not as it was published ({}): others have moved or rewritten it, as a table's compaction "
    "does, and its rows cannot be compared"
)


@dataclass(frozen=True)
class Sample:
    """Published rows, and the run that predicts them again."""

    spec: BatchInferenceSpec
    planned: PlannedRun
    seen: Snapshot
    """What is published."""
    rows: RowsByRun
    """Those that are compared, by the run that has published them."""
    num_lost: int
    """Rows that were chosen, and whose inputs have changed or are gone."""

    @property
    def places(self) -> dict[int, tuple[str, int]]:
        """Input and row in it of each row, by its id in the new run."""
        found = {}
        for line in self.planned.plan.shards.to_pylist():
            for row in row_of(IdRuns.of_json(line["aside"]).ids()).tolist():
                found[line["number"] << ROW_BITS | row] = (line["path"], line["first_row"] + row)
        return found

    def published(self) -> pa.Table:
        """The rows as they are published, with their ids in the new run as a column more.

        Raises:
            InvalidSpec: a file of theirs is gone, or holds other rows.
        """
        storage, output = output_of(self.spec)
        schema = pa.ipc.read_schema(pa.py_buffer(self.seen.schema))
        reader = OutputReader(storage, self.spec.sink, schema, schema.names)
        numbers = numbers_of(self.planned)
        tables = []
        for file in self.seen.files.values():
            ids = file.ids.ids() if file.run_id in self.rows else np.empty(0, np.int64)
            keep = are_in(self.rows.get(file.run_id, ids), ids)
            if not keep.any():
                continue
            place, folder = file.target(output), file.path.rpartition("/")[0]
            rows = kept_rows(reader, OutputFile(place, file.rows, folder, file.size), keep)
            own = [numbers[file.run_id, int(shard)] for shard in shard_of(ids[keep])]
            own_ids = np.array(own, np.int64) << ROW_BITS | row_of(ids[keep])
            tables.append(rows.append_column(ROW, pa.array(own_ids)))
        return pa.concat_tables(tables, promote_options="permissive").sort_by(ROW)


def kept_rows(reader: OutputReader, file: OutputFile, keep: Mask) -> pa.Table:
    """Some rows of a published file, of which a part at a time is held.

    Raises:
        InvalidSpec: it is gone, or holds other rows than the ledger says.
    """
    found, at = [], 0
    try:
        for rows in reader.pieces(file, ROWS_AT_ONCE):
            found.append(rows.filter(pa.array(keep[at : at + len(rows)])))
            at += len(rows)
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        raise InvalidSpec.at("sink.path", file.path, GONE.format(error)) from error
    if at != len(keep):
        problem = GONE.format(f"{at:,} rows instead of {len(keep):,}")
        raise InvalidSpec.at("sink.path", file.path, problem)
    return pa.concat_tables(found)


def numbers_of(planned: PlannedRun) -> dict[tuple[str, int], int]:
    """The new run's number of each shard, by the run that has published it and its number there."""
    lines = planned.plan.shards.select(["number", "origin_run", "aside"]).to_pylist()
    shards = [int(shard_of(IdRuns.of_json(line["aside"]).ids()[0])) for line in lines]
    return {
        (line["origin_run"], shard): line["number"]
        for line, shard in zip(lines, shards, strict=True)
    }


def trial_to_verify(
    spec: BatchInferenceSpec, rows: int, name: str, *, on_cluster: bool
) -> BatchInferenceSpec:
    """The spec as it predicts published rows again: to an output of its own, in the same columns.

    Args:
        spec: what runs do.
        rows: how many rows are compared.
        name: the call's own; it comes again after a crash.
        on_cluster: whether it goes where a run would; else it stays in this process.

    Raises:
        InvalidSpec: no rows are asked for, or this process lacks what the spec needs.
    """
    if not on_cluster:
        refuse_unlike(spec)
    trial = trial_of(spec, rows, name, on_cluster=on_cluster)
    return trial.with_part("sink", keep_columns=spec.sink.keep_columns)


def draw_sample(
    spec: BatchInferenceSpec, trial: BatchInferenceSpec, rows: int, flow_runs: tuple[str, ...]
) -> Sample:
    """Choose published rows, and plan the run that predicts them again.

    Args:
        spec: what runs do.
        trial: what this one does.
        rows: how many.
        flow_runs: ids of the flow run that asks, and of the one that has started it.

    Raises:
        InvalidSpec: nothing is published; or the inputs of all chosen rows have changed or are
            gone, or are read or written in another way now.
    """
    fingerprints = check_spec(trial)
    seen = output_as_it_stands(spec, try_it=False)
    chosen = spread(predicted_files(seen), rows)
    if not chosen:
        raise InvalidSpec.at("sink.path", spec.sink.path, "has no published rows to compare with")
    work = SetAside.of(spec, seen, chosen)
    if not work.lines:
        problem = (
            f"has none of the inputs of {rows:,} published rows any more as they were: nothing can "
            "be compared. Give the time of one that has, by --scheduled-time, or more --rows"
        )
        raise InvalidSpec.at("source.path", spec.source.path, problem)
    kept = by_run((line["origin_run"], IdRuns.of_json(line["aside"])) for line in work.lines)
    planned = plan_trial(trial, work, fingerprints, seen, flow_runs)
    num_lost = sum(map(len, chosen.values())) - sum(map(len, kept.values()))
    return Sample(spec, planned, seen, kept, num_lost)


def predicted_files(seen: Snapshot) -> list[LedgerFile]:
    """Files of rows that runs have published, less those of redrives, which may be of any config.

    By version.
    """
    redrives = set(pc.unique(seen.of("redriven")["version"]).to_pylist())
    of_redrives = {seen.entries[version]["run_id"] for version in redrives}
    files = [file for file in seen.files.values() if file.run_id not in of_redrives]
    return sorted(files, key=lambda file: file.version)


def spread(files: list[LedgerFile], rows: int) -> RowsByRun:
    """Published rows from some places in files, a few beside each other at each.

    Args:
        files: to choose from, in order.
        rows: how many, where there are so many.
    """
    ends = np.cumsum([file.rows for file in files])
    total = int(ends[-1]) if len(ends) else 0
    rows = min(rows, total)
    places = min(PLACES, rows)
    sizes = [rows * (at + 1) // places - rows * at // places for at in range(places)]
    # The first begins with the first row, and the last one ends with the last.
    firsts = [(total - size) * at // max(1, places - 1) for at, size in enumerate(sizes)]
    chosen: list[tuple[str, IdRuns]] = []
    for first, size in zip(firsts, sizes, strict=True):
        chosen += between(files, ends, first, first + size)
    return by_run(chosen)


def between(files: list[LedgerFile], ends: Ids, first: int, stop: int) -> list[tuple[str, IdRuns]]:
    """Ids of the rows from one place in files to another."""
    found = []
    for at in range(int(np.searchsorted(ends, first, side="right")), len(files)):
        start = int(ends[at]) - files[at].rows
        if start >= stop:
            break
        ids = files[at].ids.ids()[max(0, first - start) : stop - start]
        found.append((files[at].run_id, IdRuns.of(ids)))
    return found


def plan_trial(
    trial: BatchInferenceSpec,
    work: SetAside,
    fingerprints: dict[str, str],
    seen: Snapshot,
    flow_runs: tuple[str, ...],
) -> PlannedRun:
    """The run that does the rows again, in the types of those that are published."""
    storage, output = output_of(trial)
    options = RunOptions(redrive=True, flow_runs=flow_runs)
    run_key = digest(["verify", output.path])
    run = output.run(run_id_of(run_key))
    pins: dict[str, Any] = {"fingerprints": fingerprints, "ledger_version": 0, "limit": None}
    with at_output(trial):
        plan = work.plan(load_plan(storage, run), pins, lasting_columns(work.spec, seen.schema))
        plan = save_and_reload(storage, run, plan)
        save_header(storage, run, run_key, options.call, trial, 0, flow_runs)
        grows = trial.sink.takes_new_columns
        pin_schema(storage, run, seen.schema, takes_new_columns=grows)
    return PlannedRun(
        spec=trial,
        run_key=run_key,
        config=config_digests(trial, fingerprints, None)[0],
        plan=plan,
        inputs_skipped=work.skipped,
        options=options,
        replaces=False,
        rows_before=0,
        notes=[],
    )
