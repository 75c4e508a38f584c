"""Some input rows of published runs, and a run beside the output that predicts them again."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from tasks.errors import InvalidSpec, StaleLedger
from tasks.ledgers import ledger_of
from tasks.outputs import AtOutput, output_of
from tasks.plan import PlannedRun, output_as_it_stands
from tasks.planning.config import config_digests, digest
from tasks.planning.known_types import lasting_columns
from tasks.planning.preflight import check_spec
from tasks.planning.redrive import SetAside, refuse_nothing_left
from tasks.previewing import refuse_unlike, staged_with_ids, trial_of
from tasks.protocol.ids import ROW_BITS, IdRuns, Mask, RowsByRun, are_in, by_run, row_of, shard_of
from tasks.protocol.ledger import Snapshot
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.plan_file import PUBLISHED_DAYS, PUBLISHED_SHARDS, load_plan
from tasks.publishing.output_rows import OutputReader
from tasks.run_folder import pin_schema, run_id_of, save_and_reload, save_header
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tasks.timeouts import at_output
from tasks.verifying.comparing import Outcomes, Rows, by_id
from tasks.verifying.drawing import PublishedShards
from tasks.verifying.published_rows import kept_rows

DRAWS = 4
"""How often others are drawn for rows whose inputs have changed or are gone."""
ROW = "__row"


@dataclass(frozen=True)
class SampledRun(PlannedRun):
    """The run that predicts the rows again; it is not planned anew where an input changes."""


@dataclass(frozen=True)
class Sample(AtOutput):
    """Input rows of published runs, and the run that predicts them again."""

    spec: BatchInferenceSpec
    planned: SampledRun
    seen: Snapshot
    """What is published."""
    changed: frozenset[str]
    """Inputs that were drawn, and passed over since they have changed or are gone."""

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        """Shards of the new run; in `aside` which rows, as ids of the run that has done them."""
        lines = self.planned.plan.shards.to_pylist()
        return [{**line, "aside": IdRuns.of_json(line["aside"])} for line in lines]

    @cached_property
    def rows(self) -> RowsByRun:
        """The rows, by the run that has done them."""
        return by_run((line["origin_run"], line["aside"]) for line in self.lines)

    @cached_property
    def numbers(self) -> dict[tuple[str, int], int]:
        """The new run's number of each shard, by the run that has published it and its own."""
        own = [published_shard(line["aside"]) for line in self.lines]
        lines = zip(self.lines, own, strict=True)
        return {(line["origin_run"], number): line["number"] for line, number in lines}

    @cached_property
    def chosen(self) -> list[int]:
        """The rows' ids in the new run."""
        rows = self.rows.items()
        return [row for run_id, ids in rows for row in self.renumbered(run_id, ids)]

    @cached_property
    def inputs(self) -> dict[int, tuple[str, int]]:
        """Input of each of the new run's shards, and where in it that begins."""
        return {line["number"]: (line["path"], line["first_row"]) for line in self.lines}

    def place_of(self, row: int) -> tuple[str, int]:
        """Input and row in it of a row, by its id in the new run."""
        path, first = self.inputs[int(shard_of(row))]
        return path, first + int(row_of(row))

    def as_published(self) -> Outcomes:
        """What has become of the rows, by their ids in the new run.

        Those of files that are not as they were published are passed over.

        Raises:
            InvalidSpec: no rows of theirs are left then; or there may be newer ones of their keys.
            StaleLedger: somebody has published meanwhile.
        """
        tables, unread, changed = [], set[int](), list[InvalidSpec]()
        for file, keep in self.files():
            own = self.renumbered(file.run_id, file.ids.ids()[keep])
            try:
                rows = kept_rows(self.reader, self.output, file, keep)
                tables.append(rows.append_column(ROW, pa.array(own, pa.int64())))
            except InvalidSpec as error:
                changed.append(error)
                unread |= {*own}
        found = {row: rows for row, rows in by_id(tables, ROW).items() if row not in unread}
        if changed:
            self.refuse_changed(changed[-1], found)
        return Outcomes(found, self.set_aside(), frozenset(unread), tuple(map(str, changed)))

    def files(self) -> Iterator[tuple[LedgerFile, Mask]]:
        """Published files that hold any of the rows, and which of their own these are."""
        for file in self.seen.files.values():
            if file.run_id in self.rows:
                keep = are_in(self.rows[file.run_id], file.ids.ids())
                if keep.any():
                    yield file, keep

    def refuse_changed(self, changed: InvalidSpec, left: Rows) -> None:
        """See that something can be said, though a published file is not as it was.

        Raises:
            InvalidSpec: nothing can.
            StaleLedger: it is no longer published.
        """
        if ledger_of(self.spec).look().version != self.seen.version:
            said = f"somebody has published to {self.output.path} meanwhile: verify again"
            raise StaleLedger(said) from changed
        if self.spec.sink.row_key or not left:
            raise changed

    def set_aside(self) -> frozenset[int]:
        """Those of the rows that are set aside, by their ids in the new run."""
        all_aside, aside = self.seen.rows_aside, set[int]()
        for run_id in self.rows.keys() & all_aside.keys():
            ids = self.rows[run_id]
            aside |= {*self.renumbered(run_id, ids[are_in(all_aside[run_id], ids)])}
        return frozenset(aside)

    def as_predicted(self) -> Outcomes:
        """What becomes of them now."""
        rows = staged_with_ids(self.planned, ROW)
        found = by_id([] if rows is None else [rows], ROW)
        return Outcomes(found, frozenset(self.planned.accepted().rejected.ids().tolist()))

    def renumbered(self, run_id: str, ids: Iterable[int]) -> list[int]:
        """Ids of a published run as those of the new one."""
        return [
            self.numbers[run_id, int(shard_of(row))] << ROW_BITS | int(row_of(row)) for row in ids
        ]

    @cached_property
    def reader(self) -> OutputReader:
        """Reads published rows."""
        schema = pa.ipc.read_schema(pa.py_buffer(self.seen.schema))
        return OutputReader(self.storage, self.spec.sink, schema, schema.names)


def published_shard(rows: IdRuns) -> int:
    """The number of a shard in the run that has published it, by rows of it."""
    return int(shard_of(rows.ids()[0]))


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
    spec: BatchInferenceSpec,
    trial: BatchInferenceSpec,
    rows: int,
    flow_runs: tuple[str, ...],
    *,
    is_timed: bool = False,
) -> Sample:
    """Choose rows of published inputs, and plan the run that predicts them again.

    Args:
        spec: what runs do.
        trial: what this one does.
        rows: how many.
        flow_runs: ids of the flow run that asks, and of the one that has started it.
        is_timed: whether the spec's paths name a time, so that there are other ones.

    Raises:
        InvalidSpec: nothing is published; or the inputs of all chosen rows have changed or are
            gone, or are read or written in another way now.
    """
    fingerprints = check_spec(trial)
    seen = output_as_it_stands(spec, try_it=False)
    storage, output = output_of(spec)
    changed, work = frozenset[str](), None
    for _ in range(DRAWS):
        with refuse_nothing_left():
            chosen = PublishedShards(storage, output, seen, changed).draw(rows)
        if seen.schema is None or not (chosen or work):
            problem = "has no published rows to compare with"
            raise InvalidSpec.at("sink.path", spec.sink.path, problem)
        if not chosen:
            break
        work = SetAside.of(spec, seen, chosen)
        changed |= work.changed
        if not work.changed:
            break
    if work is None or not work.lines:
        ways_out = ["restore one of them"]
        if is_timed:
            ways_out.append("give the time of a run that has its own with --scheduled-time")
        if PublishedShards(storage, output, seen, changed).has_more_than(0):
            ways_out.append("ask for more --rows")
        problem = (
            f"no longer has the inputs of {rows:,} published rows unchanged, so nothing can be "
            f"compared. To compare, {', or '.join(ways_out)}"
        )
        raise InvalidSpec.at("source.path", spec.source.path, problem)
    planned = plan_trial(trial, work, fingerprints, seen, flow_runs)
    return Sample(spec, planned, seen, changed)


def plan_trial(
    trial: BatchInferenceSpec,
    work: SetAside,
    fingerprints: dict[str, str],
    seen: Snapshot,
    flow_runs: tuple[str, ...],
) -> SampledRun:
    """The run that does the rows again, in the types of those that are published."""
    storage, output = output_of(trial)
    options = RunOptions(redrive=True, flow_runs=flow_runs)
    config = config_digests(trial, fingerprints, None)[0]
    # Whoever comes again after a crash may draw others, since somebody has published.
    drawn = [[line["origin_run"], line["aside"]] for line in work.lines]
    run_key = digest(["verify", output.path, config, drawn])
    run = output.run(run_id_of(run_key))
    pins: dict[str, Any] = {
        "fingerprints": fingerprints,
        "ledger_version": 0,
        "limit": None,
        PUBLISHED_SHARDS: [published_shard(IdRuns.of_json(line["aside"])) for line in work.lines],
        PUBLISHED_DAYS: [work.days[line["origin_run"]] for line in work.lines],
    }
    with at_output(trial):
        plan = work.plan(load_plan(storage, run), pins, lasting_columns(work.spec, seen.schema))
        plan = save_and_reload(storage, run, plan)
        save_header(storage, run, run_key, options.call, trial, 0, flow_runs)
        grows = trial.sink.takes_new_columns
        pin_schema(storage, run, seen.schema, takes_new_columns=grows)
    return SampledRun(
        spec=trial,
        run_key=run_key,
        config=config,
        plan=plan,
        inputs_skipped=work.skipped,
        options=options,
        replaces=False,
        rows_before=0,
        attempts_before=0,
        notes=[],
    )
