"""The first job of two by `stages.preprocess.materialize`: reads, applies the steps, keeps rows.

That job is a run of its own which is never published, with plan, records and attempts like any
other. What it has kept serves every run over the same inputs with the same source and steps.
"""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from tasks.errors import StageFailed
from tasks.kinds.sinks import ParquetSink
from tasks.outputs import output_of, place_of_materialized
from tasks.plan import PlannedRun
from tasks.planning.config import digest
from tasks.protocol.acceptance import Gap
from tasks.protocol.asked_at_once import ASKED_AT_ONCE, fetched
from tasks.protocol.layout import RunFolder
from tasks.protocol.materialized_rows import KEPT_SCHEMA, MaterializedRun, kept_for
from tasks.protocol.plan_file import (
    Content,
    Plan,
    Shard,
    first_plan,
    load_plan,
    shard_table,
    shards_of,
    supersede,
)
from tasks.protocol.storage import FsspecStorage
from tasks.ray_job.counts import BEFORE_CUT
from tasks.record_coverage import accepted_in, rows_settled
from tasks.resources import Resources
from tasks.run_folder import run_id_of, save_and_reload, save_header
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec

FORMAT = 1
"""Of what is kept; rows of another are not taken."""
NOT_THE_ROWS = {"exclude", "on_empty", "shuffle_seed"}
"""Fields of a source that decide which inputs there are, or their order, but not a row."""


@dataclass(frozen=True)
class MaterializingRun(PlannedRun):
    """The first job's run."""

    main: PlannedRun
    """The run that it is for."""

    @property
    def is_cut(self) -> bool:
        """It is one half."""
        return False

    @property
    def stages(self) -> tuple[str, ...]:
        """What its job does."""
        return BEFORE_CUT

    def hold(self) -> None:
        """Say that this process works on both."""
        super().hold()
        self.main.hold()

    def refuse_given_up(self) -> None:
        """Refuse to go on for a run that somebody has given up."""
        self.main.refuse_given_up()


def plan_materializing_run(main: PlannedRun) -> MaterializingRun | None:
    """Plan the first job of a run, or pick it up; None where there never was anything to keep."""
    spec = spec_before(main)
    storage, output = output_of(spec)
    run_key = key_of_first_job(main, spec)
    run = output.run(run_id_of(run_key))
    old = load_plan(storage, run)
    shards = shards_to_materialize(main, spec, run, old)
    if not shards and old is None:
        return None
    plan = save_and_reload(storage, run, plan_of(old, shards, main.plan.pins))
    save_header(storage, run, run_key, {}, spec, 0)
    where = {"path": spec.sink.path, "run_id": run.run_id}
    main.storage.write(main.run.prepared, json.dumps(where).encode())
    return MaterializingRun(
        spec=spec,
        run_key=run_key,
        config=main.config,
        plan=plan,
        inputs_skipped=0,
        options=RunOptions(
            profile=main.options.profile,
            flow_runs=main.options.flow_runs,
            timed_inputs=main.options.timed_inputs,
        ),
        replaces=False,
        rows_before=rows_settled(storage, run, plan, takes_new_columns=False),
        attempts_before=0,
        notes=[],
        main=main,
    )


def key_of_first_job(main: PlannedRun, spec: BatchInferenceSpec) -> str:
    """Key of the first job's run; no two runs share one."""
    return digest([spec.sink.path, main.run_key])


def plan_of(old: Plan | None, shards: list[Shard], pins: dict[str, Any]) -> Plan:
    """The plan of the first job, as it is where nothing has changed."""
    if old is None:
        return first_plan(shard_table(shards), pins)
    same = {each.content for each in shards_of(old.shards)} == {each.content for each in shards}
    return old if same else supersede(old, shards, pins)


def spec_before(main: PlannedRun) -> BatchInferenceSpec:
    """What the first job is told: to keep its rows under their key, and to hold no GPU."""
    spec = main.spec
    folder = f"{place_of_materialized(spec)}/{key_of(main)}"
    sink = ParquetSink(path=folder, storage_options=spec.sink.storage_options)
    resources = Resources(num_gpus=0, max_replicas=1)
    return spec.model_copy(update={"sink": sink, "resources": resources, "gates": []})


def key_of(main: PlannedRun) -> str:
    """All that decides what a row is after the steps, but not which inputs there are."""
    spec = main.spec
    return digest(
        [
            FORMAT,
            spec.source.identity(NOT_THE_ROWS),
            main.plan.pins["reader"],
            [(step.identity(), step.code_digest()) for step in spec.steps],
        ]
    )[:16]


def shards_to_materialize(
    main: PlannedRun, spec: BatchInferenceSpec, run: RunFolder, old: Plan | None
) -> list[Shard]:
    """Shards that are still to be predicted and that no other run has kept wholly.

    Those that the first job has begun with stay in its plan, whatever became of them: what it has
    recorded counts as long as its plan has all of a record's shards.
    """
    own = {shard.content for shard in shards_of(old.shards)} if old else set()
    left = set(main.gap(main.accepted(), retry_rejected=True).shards.tolist())
    shards = shards_of(main.plan.shards)
    new = {s.content for at, s in enumerate(shards) if at in left and s.content not in own}
    for other in materialized_runs(spec, new):
        if other.run != run:
            new -= other.numbers.keys()
    return [shard for shard in shards if shard.content in own | new]


def materialized_runs(spec: BatchInferenceSpec, contents: set[Content]) -> list[MaterializedRun]:
    """Runs that have kept rows of some shards under the same key, or are about to."""
    storage, output = output_of(spec)
    runs = map(output.run, sorted(storage.folders(output.runs)) if contents else [])
    # Years of nights have left one each, and a store answers three times for each.
    found = fetched(partial(materialized_run, storage, contents), runs, ASKED_AT_ONCE)
    return [each for each in found if each]


def materialized_run(
    storage: FsspecStorage, contents: set[Content], run: RunFolder
) -> MaterializedRun | None:
    """What a run has kept; None where it was not to keep any of some shards."""
    plan = load_plan(storage, run) if storage.stat(run.header) else None
    if plan is None or contents.isdisjoint(shard.content for shard in shards_of(plan.shards)):
        return None
    return MaterializedRun(run, plan, accepted_in(storage, run, plan, takes_new_columns=False))


def todo_materialized(main: PlannedRun, gap: Gap) -> pa.Table:
    """What the second job is to read for a gap; of other runs, what its own first job lacks.

    Raises:
        StageFailed: what was kept is gone.
    """
    spec = spec_before(main)
    storage, output = output_of(spec)
    run = output.run(run_id_of(key_of_first_job(main, spec)))
    contents = {shard.content for shard in shards_of(main.plan.shards.take(pa.array(gap.shards)))}
    own = materialized_run(storage, contents, run)
    missing = contents - own.numbers.keys() if own else contents
    others = [each for each in materialized_runs(spec, missing) if each.run != run]
    try:
        kept = kept_for(main.plan, main.accepted(), gap, [own, *others] if own else others)
    except FileNotFoundError as error:
        gone = StageFailed(f"its rows kept in {spec.sink.path}.state are gone; run again")
        raise gone.locate("read", str(error)) from error
    return pa.Table.from_pylist([each.line for each in kept], KEPT_SCHEMA)
