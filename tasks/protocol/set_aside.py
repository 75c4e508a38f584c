"""Rows that published runs have set aside, as the plan of a run that does them again."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.protocol.ids import IdRuns, Ids, row_of, shard_of
from tasks.protocol.ledger import Snapshot
from tasks.protocol.ledger_lines import file_of
from tasks.protocol.plan_file import REDRIVE_SCHEMA, SHARD_SCHEMA, Plan, read_plan
from tasks.protocol.storage import Storage

PLAN_SCHEMA = pa.schema([*SHARD_SCHEMA, *REDRIVE_SCHEMA])
Line = dict[str, Any]
"""A shard of a redrive's plan."""


@dataclass(frozen=True)
class PastRun:
    """A published run that has set rows aside."""

    run_id: str
    aside: Ids
    """The rows, as its ids."""
    plan: Plan


def runs_with_rows_aside(storage: Storage, seen: Snapshot) -> Iterator[PastRun]:
    """All runs that rows in the quarantine are of.

    Raises:
        FileNotFoundError: a run's plan is gone.
    """
    for run_id, aside in sorted(seen.rows_aside.items()):
        yield PastRun(run_id, aside, read_plan(storage, seen.entry_of(run_id)["plan"]))


def lines_of(run: PastRun, seen: Snapshot) -> list[Line]:
    """The shards in which a run has set rows aside."""
    shards = {line["number"]: line for line in run.plan.shards.to_pylist()}
    published = published_shards(seen, run.run_id)
    lines = []
    for number, rows in by_shard(run.aside):
        shard = shards[number]
        unread = may_be_unread(shard, rows) and number not in published
        lines.append(
            {
                **{name: shard[name] for name in SHARD_SCHEMA.names},
                "origin_run": run.run_id,
                "aside": IdRuns.of(rows).as_json(),
                "whole": unread,
                "read_as": shard.get("read_as", run.run_id),
            }
        )
    return lines


def may_be_unread(shard: Line, rows: Ids) -> bool:
    """Whether the row set aside may stand for a file that nobody could read, of unknown length.

    Of a redrive's shard that was not read as a whole the other rows are somewhere else.
    """
    return shard["rows"] is None and shard.get("whole", True) and row_of(rows).tolist() == [0]


def by_shard(ids: Ids) -> list[tuple[int, Ids]]:
    """Sorted ids, shard by shard."""
    numbers, first = np.unique(shard_of(ids), return_index=True)
    return list(zip(numbers.tolist(), np.split(ids, first[1:]), strict=True))


def published_shards(seen: Snapshot, run_id: str) -> set[int]:
    """Shards of a run of which some row is published, or was: others may have taken its place."""
    found: set[int] = set()
    for file in map(file_of, seen.changes.get("file", [])):
        if file.run_id == run_id:
            found.update(np.unique(shard_of(file.ids.ids())).tolist())
    return found


def redrive_plan(old: Plan | None, lines: list[Line], pins: dict[str, Any]) -> Plan:
    """The redrive's plan; of an earlier attempt's, what is still among the lines.

    An input that has changed since is left out: whoever runs it next predicts it anew.
    """
    if old is None:
        numbered = [{**line, "number": number} for number, line in enumerate(lines)]
        return Plan(pa.Table.from_pylist(numbered, PLAN_SCHEMA), pins)
    left = {key_of(line) for line in lines}
    kept = [line for line in old.shards.to_pylist() if key_of(line) in left]
    if len(kept) == len(old.shards):
        return old
    table = pa.Table.from_pylist(kept, PLAN_SCHEMA)
    return Plan(table, old.pins, (*old.ancestors, old.digest))


def key_of(line: Line) -> tuple[str, str]:
    """What makes two lines the same."""
    return line["origin_run"], line["aside"]
