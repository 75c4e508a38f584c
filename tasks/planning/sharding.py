"""Inputs as shards: the run's plan as it is, superseded where inputs changed, or the first."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tasks.errors import InvalidSpec
from tasks.kinds.sources.source import BadRow, Source
from tasks.kinds.sources.table_reading.carried import GONE
from tasks.planning.known_columns import refuse_reserved, refuse_unknown_columns
from tasks.planning.known_paths import refuse_no_part
from tasks.protocol.plan_file import (
    Plan,
    Shard,
    each_shard,
    first_plan,
    shard_table,
    supersede,
    total_rows,
)
from tasks.protocol.same_shards import places_in
from tasks.protocol.stat_columns import Stats
from tasks.protocol.storage import FsspecStorage
from tasks.spec import BatchInferenceSpec

logger = logging.getLogger(__name__)

KEPT = (
    "the inputs have other columns than when this run was planned, and it continues with those of "
    "the plan: %s. --restart plans it again and discards what it has predicted"
)
NONE_KEPT = (
    "the inputs have other columns than when this run was planned; it has done no row, and is "
    "planned again with the new ones: %s"
)


def resume_plan(
    old: Plan | None,
    spec: BatchInferenceSpec,
    pins: dict[str, Any],
    storage: FsspecStorage,
    left: Stats,
    lasting: Sequence[str] = (),
    has_done_rows: Callable[[], bool] = lambda: True,
) -> Plan:
    """The run's plan: as it is, superseded where inputs have changed, or the first one.

    Args:
        old: the plan of an earlier attempt.
        spec: what to run.
        pins: what must not change between attempts.
        storage: where the inputs lie.
        left: those that are to be read.
        lasting: columns that the output has, whatever these inputs lack.
        has_done_rows: whether rows of the old plan are settled, which its columns stay for.

    Raises:
        InvalidSpec: a step, the model, the sink or a gate names a column that is not there, or
            a step a part of the inputs' paths.
    """
    reader = old.pins["reader"] if old else pinned_now(spec, storage, left)
    if old is None:
        refuse_reserved(spec, reader)
    if has_rows(left.table):  # else a source may know no types, and take its columns for text
        refuse_unknown_columns(spec, reader, lasting)
        refuse_no_part(spec, storage, left.table["path"])
    shards = spec.source.shards(storage, left)
    if spec.source.shuffle_seed is not None:
        shards = shuffled(shards, spec.source.shuffle_seed)
    if pins["limit"] is not None:
        shards = shard_table(first_rows(spec.source, storage, shards, reader, pins["limit"]))
    pins = {**pins, "reader": reader, "known_rows": total_rows(shards)}
    if old is None:
        return first_plan(shards, pins)
    if have_same_contents(old.shards, shards):
        return old
    if other := other_columns(spec, reader, storage, left):
        if not has_done_rows():
            logger.info(NONE_KEPT, other)
            fresh = resume_plan(None, spec, pins, storage, left, lasting)
            return supersede(old, fresh.shards, fresh.pins, keeps_numbers=False)
        logger.warning(KEPT, other)
    return supersede(old, shards, pins)


def pinned_now(spec: BatchInferenceSpec, storage: FsspecStorage, left: Stats) -> dict[str, Any]:
    """Reader settings that the source pins, with all columns that the output takes.

    A backfill, or a run that catches up on several nights, would else leave those out that only
    later inputs have, also where they are published.
    """
    if not spec.sink.takes_new_columns:
        return spec.source.pin(storage, left)
    needed = {*spec.model.input_columns, *spec.sink.row_key}
    return spec.source.pin_for_growth(storage, left, needed)


def has_rows(inputs: pa.Table) -> bool:
    """Whether any input or shard is to be read: there may be none, or such as are gone alone."""
    return bool(pc.any(pc.not_equal(inputs["identity"], GONE)).as_py())


def num_inputs(plan: Plan) -> int:
    """Inputs of a plan; of the millions that are one shard each no list is made."""
    shards = plan.shards
    several = shards if plan.redrives else shards.filter(pc.is_valid(shards["start"]))
    return len(shards) - len(several) + len(set(several["path"].to_pylist()))


def other_columns(
    spec: BatchInferenceSpec, reader: dict[str, Any], storage: FsspecStorage, left: Stats
) -> str:
    """With which other columns inputs that have changed would be planned now; empty if with none.

    Rows that are predicted keep those of the plan. Who has mended a file must be told, or its rows
    are set aside again for what they no longer are.
    """
    now = None
    with suppress(InvalidSpec):  # then the rows say what is wrong, as they did in the first attempt
        now = spec.source.schema_of_rows(pinned_now(spec, storage, left))
    planned = spec.source.schema_of_rows(reader)
    return "" if now is None or planned is None else "; ".join(differences(planned, now))


def differences(planned: pa.Schema, now: pa.Schema) -> list[str]:
    """What columns are to a plan, and would be now, where that is not the same."""

    def held(schema: pa.Schema, name: str) -> str:
        return str(schema.field(name).type) if name in schema.names else "not there"

    return [
        f"{name} was {was} and is {held(now, name)}"
        for name in dict.fromkeys([*planned.names, *now.names])
        if (was := held(planned, name)) != held(now, name)
    ]


def shuffled(shards: pa.Table, seed: int) -> pa.Table:
    """Shards in an order that each one's name and the seed give, whatever others there are."""
    keys = [
        hashlib.sha256(f"{seed}\0{shard.path}\0{shard.start}".encode()).digest()
        for shard in each_shard(shards)
    ]
    return shards.take(pa.array(sorted(range(len(keys)), key=keys.__getitem__), pa.int64()))


def first_rows(
    source: Source,
    storage: FsspecStorage,
    shards: pa.Table,
    reader: dict[str, Any],
    limit: int,
) -> list[Shard]:
    """The shards that hold the first `limit` rows; where a length is unknown, by reading it."""
    taken = []
    for shard in each_shard(shards):
        if limit <= 0:
            break
        rows = shard.rows
        if rows is None:
            rows = 0
            for read in source.read(storage, shard, reader):
                rows += 1 if isinstance(read, BadRow) else len(read)
                if rows >= limit:
                    break
        rows = min(rows, limit)
        limit -= rows
        taken.append(replace(shard, rows=rows))
    return taken


def have_same_contents(shards: pa.Table, others: pa.Table) -> bool:
    """Whether two plans' shards are the same, in whatever order."""
    names = ["path", "identity", "start", "stop"]
    if shards.select(names).equals(others.select(names)):
        return True
    return len(shards) == len(others) and bool((places_in(shards, others) >= 0).all())
