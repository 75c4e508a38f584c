"""Rows of published runs, as a rule such as they have set aside, as a plan that does them again."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.protocol.cached_apart import cached_apart
from tasks.protocol.ids import IdRuns, Ids, RowsByRun, distinct, row_of, shard_of
from tasks.protocol.layout import OutputFolder, RunFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import REDRIVE_SCHEMA, SHARD_SCHEMA, Plan, name_of, read_plan
from tasks.protocol.ranges import IdRanges
from tasks.protocol.read_back import OF_PUBLISHED
from tasks.protocol.records import load_records
from tasks.protocol.shard_ends import Ends
from tasks.protocol.storage import Storage

PLAN_SCHEMA = pa.schema([*SHARD_SCHEMA, *REDRIVE_SCHEMA])
Line = dict[str, Any]
"""A shard of a redrive's plan."""


@dataclass(frozen=True)
class PastRun:
    """A published run that has done rows which are to be done again."""

    storage: Storage
    folder: RunFolder
    aside: Ids
    """The rows, as its ids."""
    plan_file: str
    published: set[int]
    """Shards of which some row is published, or was: others may have taken its place."""

    @property
    def run_id(self) -> str:
        """Whose plan the rows' ids belong to."""
        return self.folder.run_id

    @cached_apart
    def plan(self) -> Plan:
        """What it was to do.

        Raises:
            FileNotFoundError: it is gone.
            InvalidSpec: it is damaged.
        """
        return read_plan(self.storage, self.plan_file, OF_PUBLISHED)

    @cached_apart
    def lengths(self) -> dict[int, int]:
        """Rows of each shard, as whoever came first to its end has recorded.

        Of all records: one may be right about a shard's end and count for no row.
        """
        records = load_records(self.storage, self.folder)
        ends = Ends.of(each.ends for each in records if each.plan in self.plan.lineage).first()
        return dict(zip(ends.shards.tolist(), ends.rows.tolist(), strict=True))

    def length_of(self, shard: Line) -> int:
        """Rows of a shard whose length its plan does not know.

        Raises:
            FileNotFoundError: no record says so, since the run's records are gone.
        """
        try:
            return self.lengths[shard["number"]]
        except KeyError:
            gone = f"no record in {self.folder.records} has the end of {shard['path']}"
            raise FileNotFoundError(gone) from None


def runs_of(
    storage: Storage, output: OutputFolder, seen: Snapshot, by_run: RowsByRun
) -> Iterator[PastRun]:
    """All runs that some rows are of.

    Their plans are looked up by name: an entry says where a plan lay when it was published, and
    the output may have been moved since.

    Args:
        storage: of the output.
        output: its folders.
        seen: what is published.
        by_run: the rows.
    """
    entries = {entry["run_id"]: entry for entry in seen.entries.values()}
    published = published_shards(seen, by_run)
    for run_id, aside in sorted(by_run.items()):
        name, folder = name_of(entries[run_id]["plan"]), output.run(run_id)
        yield PastRun(storage, folder, aside, f"{folder.plans}/{name}", published[run_id])


def lines_of(run: PastRun) -> list[Line]:
    """The shards in which a run has set rows aside.

    Raises:
        FileNotFoundError: the run's plan is gone, or its records, which alone tell whether a shard
            was read.
    """
    # Of millions of shards a few, as a rule.
    numbers = pa.array(distinct(shard_of(run.aside)))
    planned = run.plan.shards
    planned = planned.filter(pc.is_in(planned["number"], numbers))
    shards = {line["number"]: line for line in planned.to_pylist()}
    lines = []
    for number, rows in by_shard(run.aside):
        shard = shards[number]
        unread = (
            may_be_unread(shard, rows)
            and number not in run.published
            # Last, since all of the run's records are read for it. Of longer ones no row may be
            # published either: all were filtered, or lost to others of their key.
            and run.length_of(shard) == 1
        )
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


def published_shards(seen: Snapshot, rows: RowsByRun) -> dict[str, set[int]]:
    """By run, those of the shards of some rows of which any row is published, or was."""
    shards = {run_id: distinct(shard_of(ids)) for run_id, ids in rows.items()}
    found: dict[str, list[tuple[IdRuns]]] = {run_id: [] for run_id in rows}
    for line in seen.changes.get("file", []):
        if line["run_id"] in found:  # of years of runs a few have rows there
            found[line["run_id"]].append((IdRuns.of_json(line["ids"]),))
    return {
        run_id: set(np.intersect1d(shard_of(IdRanges.of(found[run_id]).starts), wanted).tolist())
        for run_id, wanted in shards.items()
    }


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
