"""Read, infer, write: what one execution of a write task does, on tiny batches."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tasks.protocol.batch import ROW, Rejection, RowBatch, ShardEnd, merge
from tasks.protocol.ids import IdRuns, Mask, as_ids, row_id
from tasks.protocol.layout import RunFolder
from tasks.protocol.plan_file import Plan, Shard
from tasks.protocol.records import Encoded, Part, store
from tasks.protocol.storage import Storage
from tests.simulation.inputs import CHILDREN, FILTERED, FLAKY, OK, REJECTED, Inputs

SCHEMA = pa.schema([(ROW, pa.int64()), ("value", pa.string())])

NO_ROWS = SCHEMA.empty_table()


@dataclass(frozen=True)
class Block:
    """Some rows of a shard, as positions in it; perhaps its end."""

    shard: Shard
    rows: tuple[int, ...]
    ends: bool


@dataclass
class Hands:
    """What an execution works with."""

    inputs: Inputs
    storage: Storage
    run: RunFolder
    plan: Plan
    pause: Callable[[], None]
    chance: Callable[[], float]
    name: str
    """Of this execution: children of one row must all bear the same."""


def execute(hands: Hands, blocks: list[Block]) -> None:
    """One execution: several batches become one record."""
    batch = merge([infer(hands, block) for block in blocks])
    for _ in range(3):
        try:
            store(hands.storage, hands.run, hands.plan.digest, batch, encode)
        except ConnectionError:
            continue  # perhaps it was written, perhaps not: a second record does no harm
        return


def infer(hands: Hands, block: Block) -> RowBatch:
    """Read a block, between two looks at its input, and predict it."""
    shard = block.shard
    hands.inputs.check(shard)
    hands.pause()
    identity = hands.inputs.identity(shard.path) or ""
    content = hands.inputs.content(shard.path, identity)
    rows, rejected, filtered = [], [], []
    mine = content.rows_of(shard)
    for position in block.rows:
        row = mine.start + position
        outcome = content.rows[row] if row < len(content.rows) else REJECTED
        row_key = row_id(shard.number, position)
        value = [shard.path, identity, row, hands.run.run_id, hands.name]
        if outcome == FLAKY:
            outcome = OK if hands.chance() < 0.5 else REJECTED
        if outcome == REJECTED:
            rejected.append(
                Rejection(row_key, shard.path, row, "infer", "E", "", json.dumps(value))
            )
        elif outcome == FILTERED:
            filtered.append(row_key)
        else:
            n = 1 + int(hands.chance() * 3) if outcome == CHILDREN else 1
            rows += [(row_key, json.dumps([*value, k, n])) for k in range(n)]
    hands.pause()
    hands.inputs.check(shard)
    end = (ShardEnd(shard.number, len(mine)),) if block.ends else ()
    return RowBatch(table_of(rows), tuple(rejected), IdRuns.of(as_ids(filtered)), end)


def table_of(rows: list[tuple[int, str]]) -> pa.Table:
    if not rows:
        return NO_ROWS
    ids, values = [row[0] for row in rows], [row[1] for row in rows]
    return pa.table([pa.array(ids, pa.int64()), pa.array(values, pa.string())], schema=SCHEMA)


def encode(batch: RowBatch) -> Encoded:
    """Rows as JSON, in two partitions; rejections in a file of their own."""
    pairs = list(zip(batch.ids.tolist(), batch.rows["value"].to_pylist(), strict=True))
    parts = []
    for parity in (0, 1):
        own = [pair for pair in pairs if pair[0] & 1 == parity]
        if own:
            parts.append(part_of(own, f"p={parity}/"))
    aside = [(rejection.id, rejection.input_json) for rejection in batch.rejected]
    return Encoded(parts, part_of(aside, "") if aside else None, "schema")


def part_of(pairs: list[tuple[int, str]], partition: str) -> Part:
    ids = np.array([pair[0] for pair in pairs], dtype=np.int64)
    return Part(json.dumps(pairs).encode(), ".json", ids, partition)


def drop_rows(content: bytes, keep: Mask) -> bytes:
    pairs = json.loads(content)
    assert len(pairs) == len(keep), "a file's rows are not those that the ledger says"
    return json.dumps([p for p, k in zip(pairs, keep.tolist(), strict=True) if k]).encode()
