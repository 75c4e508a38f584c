"""The first job of two by `stages.preprocess.materialize`: reads, applies the steps, keeps rows.

That job is a run of its own which is never published, with plan, records and attempts like any
other. What it has kept serves every run over the same inputs with the same source and steps.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import StageFailed
from tasks.kinds.sinks import ParquetSink
from tasks.outputs import output_of, place_of_materialized
from tasks.plan import PlannedRun
from tasks.planning.config import config_digests, digest, other_config
from tasks.planning.sharding import have_same_contents
from tasks.protocol.acceptance import Gap
from tasks.protocol.asked_at_once import ASKED_AT_ONCE, fetched
from tasks.protocol.ids import Mask, as_ids
from tasks.protocol.layout import RunFolder
from tasks.protocol.materialized_rows import (
    KEPT_SCHEMA,
    MaterializedRun,
    first_kept,
    kept_for,
    left_of,
)
from tasks.protocol.plan_file import (
    SHARD_SCHEMA,
    Plan,
    first_plan,
    load_plan,
    supersede,
)
from tasks.protocol.same_shards import places_in
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
PLANS_AT_A_TIME = 256
"""Of other runs, in memory: as a rule each is of inputs that no other one has kept."""


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
    if not len(shards) and old is None:
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


def plan_of(old: Plan | None, shards: pa.Table, pins: dict[str, Any]) -> Plan:
    """The plan of the first job, as it is where nothing has changed."""
    if old is None:
        return first_plan(shards, pins)
    if have_same_contents(old.shards, shards):
        return old
    return supersede(old, shards, pins)


def spec_before(main: PlannedRun) -> BatchInferenceSpec:
    """What the first job is told: to keep its rows under their key, and to hold no GPU."""
    spec = main.spec
    sink = ParquetSink(path=kept_at(main), storage_options=spec.sink.storage_options)
    resources = Resources(num_gpus=0, max_replicas=1)
    return spec.model_copy(update={"sink": sink, "resources": resources, "gates": []})


def kept_at(main: PlannedRun) -> str:
    """Beside which path rows are kept under their key."""
    return f"{place_of_materialized(main.spec)}/{key_of(main)}"


def key_of(main: PlannedRun) -> str:
    """All that decides what a row is after the steps, but not which inputs there are."""
    spec = main.spec
    set_up = spec.environment.model_dump(include={"pip", "env_vars"}, exclude_defaults=True)
    return digest(
        [
            FORMAT,
            spec.source.identity(NOT_THE_ROWS),
            main.plan.pins["reader"],
            [(step.identity(), step.code_digest()) for step in spec.steps],
            *filter(None, [set_up]),
        ]
    )[:16]


def shards_to_materialize(
    main: PlannedRun, spec: BatchInferenceSpec, run: RunFolder, old: Plan | None
) -> pa.Table:
    """Shards that are still to be predicted and whose rows are not taken from other runs.

    Those that the first job has begun with stay in its plan, whatever became of them: what it has
    recorded counts as long as its plan has all of a record's shards.
    """
    shards = main.plan.shards.select(SHARD_SCHEMA.names)
    is_new, is_own = np.zeros((2, len(shards)), dtype=bool)
    is_new[main.gap(main.accepted(), retry_rejected=True).shards] = True
    if old is not None:
        is_own = places_in(old.shards, shards) >= 0
    is_new &= ~is_own
    wanted = shards.filter(pa.array(is_new))
    is_new[is_new] = ~are_to_take(main, wanted, other_materialized_runs(main, run, wanted))
    return shards.filter(pa.array(is_own | is_new))


def are_to_take(main: PlannedRun, shards: pa.Table, others: list[MaterializedRun]) -> Mask:
    """Which shards' rows a run takes from others, that have kept them wholly.

    Where more rows of these were set aside than it may be published without, those with any are
    prepared once more: perhaps what was wrong is mended, and nothing else would show that.

    Args:
        main: the run.
        shards: some that it has to predict.
        others: where to look; each shard's rows are taken from the first that has it.
    """
    first = first_kept(shards, others)
    is_kept = first >= 0
    rejected, settled = np.hstack([(as_ids(()),) * 2, *(run.rows_of_whole for run in others)])
    rejected, settled = rejected[first[is_kept]], settled[first[is_kept]]
    rows = main.plan.known_rows or int((rejected + settled).sum())
    if not main.spec.errors.allows(int(rejected.sum()), rows):
        is_kept[is_kept] = rejected == 0
    return is_kept


def other_materialized_runs(
    main: PlannedRun, run: RunFolder, shards: pa.Table
) -> list[MaterializedRun]:
    """Runs beside one that have kept rows of some shards under the same key, or are about to.

    Args:
        main: the run that is to take them.
        run: its own first job's.
        shards: the ones that are wanted.

    Returns:
        The last one first.
    """
    storage, output = output_of(spec_before(main))
    is_asked = len(shards) and not is_made_again(main)
    folders = sorted(storage.folders(output.runs)) if is_asked else []
    others = [each for each in map(output.run, folders) if each != run]
    # Years of nights have left one each, and a store answers three times for each.
    found = list[tuple[RunFolder, Plan]]()
    for start in range(0, len(others), PLANS_AT_A_TIME):
        some = others[start : start + PLANS_AT_A_TIME]
        plans = fetched(partial(plan_to_keep, storage), some, ASKED_AT_ONCE)
        planned = [(each, plan) for each, plan in zip(some, plans, strict=True) if plan]
        found += with_any_of(shards, planned)
    runs = fetched(lambda each: materialized_run(storage, *each), found, ASKED_AT_ONCE)
    return sorted(runs, key=attrgetter("last_record"), reverse=True)


def is_made_again(main: PlannedRun) -> bool:
    """Whether somebody has what is published replaced by the same config.

    Then something has changed of which nobody here knows, such as an installed package or a file
    that a step's code opens, and what was kept may be of before.
    """
    if not main.options.replace_output:
        return False
    seen, fingerprints = main.ledger.look(), main.plan.pins["fingerprints"]
    configs = config_digests(main.spec, fingerprints, main.options.limit)
    return bool(seen.entries) and other_config(seen, configs) is None


def with_any_of(
    shards: pa.Table, planned: list[tuple[RunFolder, Plan]]
) -> Iterator[tuple[RunFolder, Plan]]:
    """Runs that are to keep any of some shards, which are looked for in all plans at once."""
    tables = [plan.shards.select(SHARD_SCHEMA.names) for _, plan in planned]
    places = places_in(shards, pa.concat_tables([SHARD_SCHEMA.empty_table(), *tables]))
    for each, table in zip(planned, tables, strict=True):
        own, places = np.split(places, [len(table)])
        if (own >= 0).any():
            yield each


def plan_to_keep(storage: FsspecStorage, run: RunFolder) -> Plan | None:
    """The plan of a run that keeps rows; None where it is not wholly stored."""
    return load_plan(storage, run) if storage.stat(run.header) else None


def materialized_run(storage: FsspecStorage, run: RunFolder, plan: Plan) -> MaterializedRun:
    """What a run has kept."""
    return MaterializedRun(run, plan, accepted_in(storage, run, plan, takes_new_columns=False))


def todo_materialized(main: PlannedRun, gap: Gap) -> pa.Table:
    """What the second job is to read for a gap; of other runs, what its own first job lacks.

    Raises:
        StageFailed: what was kept is gone.
    """
    spec = spec_before(main)
    storage, output = output_of(spec)
    run = output.run(run_id_of(key_of_first_job(main, spec)))
    plan, left = plan_to_keep(storage, run), left_of(main.plan, gap)
    own = [materialized_run(storage, run, plan)] if plan else []
    missing = left.filter(pa.array(first_kept(left, own) < 0))
    others = other_materialized_runs(main, run, missing)
    try:
        found = kept_for(main.plan, main.accepted(), gap, [*own, *others])
    except FileNotFoundError as error:
        gone = StageFailed(f"its rows kept in {spec.sink.path}.state are gone; run again")
        raise gone.locate("read", str(error)) from error
    return pa.Table.from_pylist([each.line for each in found], KEPT_SCHEMA)
