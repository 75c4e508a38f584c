"""Inputs as shards: the run's plan as it is, superseded where inputs changed, or the first."""

import hashlib
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.sources.source import BadRow, Source
from tasks.protocol.plan_file import Plan, Shard, first_plan, shard_table, supersede
from tasks.protocol.storage import FsspecStorage, Stat
from tasks.spec import BatchInferenceSpec


def resume_plan(
    old: Plan | None,
    spec: BatchInferenceSpec,
    pins: dict[str, Any],
    storage: FsspecStorage,
    left: list[Stat],
) -> Plan:
    """The run's plan: as it is, superseded where inputs have changed, or the first one.

    Raises:
        InvalidSpec: the model reads a column that the source does not have.
    """
    reader = old.pins["reader"] if old else spec.source.pin(storage, left)
    refuse_unknown_columns(spec, reader)
    shards = [shard for stat in left for shard in spec.source.split(storage, stat)]
    if spec.source.shuffle_seed is not None:
        shards = shuffled(shards, spec.source.shuffle_seed)
    if pins["limit"] is not None:
        shards = first_rows(spec.source, storage, shards, reader, pins["limit"])
    known = [shard.rows for shard in shards]
    total = None if None in known else sum(rows or 0 for rows in known)
    pins = {**pins, "reader": reader, "known_rows": total}
    if old is None:
        return first_plan(shards, pins)
    if contents(old.shards).equals(contents(shard_table(shards))):
        return old
    return supersede(old, shards, pins)


def refuse_unknown_columns(spec: BatchInferenceSpec, reader: dict[str, Any]) -> None:
    """See that the source has the columns that the model reads, where no step could make them.

    Args:
        spec: says what the model reads.
        reader: what the source has pinned; its schema, where it knows one.

    Raises:
        InvalidSpec: it lacks one.
    """
    held = reader.get("schema")
    names = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(held))).names if held else []
    lacking = [each for each in spec.model.input_columns if each not in names]
    if names and lacking and not spec.steps:
        problem = (
            f"is read by the model and is not among the source's columns {', '.join(names)}: name "
            "another in model, or rename one in a step"
        )
        raise InvalidSpec.at("model input", lacking[0], problem)


def shuffled(shards: list[Shard], seed: int) -> list[Shard]:
    """Shards in an order that each one's name and the seed give, whatever others there are."""

    def key(shard: Shard) -> bytes:
        return hashlib.sha256(f"{seed}\0{shard.path}\0{shard.start}".encode()).digest()

    return sorted(shards, key=key)


def first_rows(
    source: Source,
    storage: FsspecStorage,
    shards: list[Shard],
    reader: dict[str, Any],
    limit: int,
) -> list[Shard]:
    """The shards that hold the first `limit` rows; where a length is unknown, by reading it."""
    taken = []
    for shard in shards:
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


def contents(shards: pa.Table) -> pa.Table:
    """Contents of a plan's shards, sorted."""
    names = ["path", "identity", "start", "stop"]
    return shards.select(names).sort_by([(name, "ascending") for name in names])
