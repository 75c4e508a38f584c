"""Which rows of published inputs are predicted again: some at each of several places."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.kinds.sources.table_reading.carried import GONE
from tasks.protocol.ids import ROW_BITS, IdRuns, RowsByRun, are_in, by_run
from tasks.protocol.layout import OutputFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.plan_file import UNKNOWN, name_of
from tasks.protocol.redrive_shards import PastRun
from tasks.protocol.storage import Storage
from tasks.protocol.texts import large

PLACES = 8
"""In all inputs that are published, from the first row to the last: nights differ, and files do."""
Taken = dict[int, list[range]]
"""Rows of shards, by the shard's place among all."""


@dataclass(frozen=True)
class PublishedShards:
    """Shards of inputs that are published, in the order of the ledger, those of redrives left out.

    Of a shard rows may be published, set aside or filtered.
    """

    storage: Storage
    output: OutputFolder
    seen: Snapshot
    without: frozenset[str] = frozenset()
    """Inputs that are not as they were."""
    runs: dict[str, PastRun] = field(default_factory=dict)
    """Those that were looked at."""

    @property
    def inputs(self) -> pa.Table:
        """Their lines."""
        lines = self.seen.inputs
        lines = lines.filter(pc.not_equal(lines["identity"], GONE))
        gone = pa.array(sorted(self.without), pa.string())
        return lines.filter(pc.invert(pc.is_in(large(lines["path"]), large(gone))))

    def run(self, run_id: str) -> PastRun:
        """The run that has published a shard."""
        if run_id not in self.runs:
            entries = self.seen.entries.values()
            (entry,) = (entry for entry in entries if entry["run_id"] == run_id)
            folder = self.output.run(run_id)
            plan_file = f"{folder.plans}/{name_of(entry['plan'])}"
            none = np.empty(0, np.int64)
            self.runs[run_id] = PastRun(self.storage, folder, none, plan_file, set())
        return self.runs[run_id]

    def length(self, run_id: str, number: int) -> int:
        """How many rows a shard has.

        Raises:
            FileNotFoundError: the run's plan is gone, or its records, which alone tell that.
        """
        run = self.run(run_id)
        at = int(np.searchsorted(run.plan.numbers, number))
        known = int(run.plan.lengths[at])
        path = run.plan.shards["path"][at].as_py()
        return known if known != UNKNOWN else run.length_of({"number": number, "path": path})

    def draw(self, rows: int) -> RowsByRun:
        """Rows from some places, by the run that did them.

        Those that a redrive has brought in are left out: it may have been of any config.

        Args:
            rows: how many, where there are so many.

        Raises:
            FileNotFoundError: what a run has left behind is gone.
        """
        inputs = self.inputs
        run_ids, numbers = inputs["run_id"], inputs["shard"]

        def length(at: int) -> int:
            return self.length(run_ids[at].as_py(), numbers[at].as_py())

        chosen = [
            (run_ids[at].as_py(), id_runs(numbers[at].as_py(), each))
            for at, ranges in spread(len(inputs), rows, length).items()
            for each in ranges
        ]
        found = by_run(chosen)
        brought = self.brought_in(found)
        left = {run_id: ids[~are_in(brought[run_id], ids)] for run_id, ids in found.items()}
        return {run_id: ids for run_id, ids in left.items() if len(ids)}

    def has_more_than(self, rows: int) -> bool:
        """Whether more rows could be drawn; not where what a run has left behind is gone."""
        try:
            return sum(map(len, self.draw(2 * rows + 1).values())) > rows
        except FileNotFoundError:
            return False

    def brought_in(self, chosen: RowsByRun) -> RowsByRun:
        """Rows of some runs that these have set aside and that are set aside no more."""
        lines = self.seen.changes.get("quarantine", [])
        ever = by_run(
            (line["run_id"], IdRuns.of_json(line["ids"]))
            for line in lines
            if line["run_id"] in chosen
        )
        still, none = self.seen.rows_aside, np.empty(0, np.int64)
        return {
            run_id: np.setdiff1d(ever.get(run_id, none), still.get(run_id, none))
            for run_id in chosen
        }


def id_runs(number: int, rows: range) -> IdRuns:
    """Ids of some rows of a shard."""
    return IdRuns(((number << ROW_BITS | rows.start, len(rows), 1),))


def spread(count: int, rows: int, length: Callable[[int], int]) -> Taken:
    """Rows from places that lie as far apart as can be, a few beside each other at each.

    The first place begins with the first row, and the last one ends with the last.

    Args:
        count: how many shards there are.
        rows: how many rows, where there are so many.
        length: tells how many rows the shard at a place has.
    """
    taken: Taken = {}
    places = min(PLACES, rows) if count else 0
    sizes = [rows * (at + 1) // places - rows * at // places for at in range(places)]
    steps = max(1, places - 1)
    starts = [(2 * (count - 1) * at + steps) // (2 * steps) for at in range(places)]
    for start in dict.fromkeys(starts):
        own = [size for size, at in zip(sizes, starts, strict=True) if at == start]
        is_last = places > 1 and start == count - 1
        walk = range(start, -1, -1) if is_last else range(start, count)
        left = sum(own)
        for at in walk:
            if at in taken or (at in starts and at != start) or not left:
                break
            most = length(at)
            if at == start and most >= left:
                taken[at] = list(apart(most, own, starts.index(start) / steps))
                left = 0
            elif most:
                few = min(most, left)
                taken[at] = [range(most - few, most) if is_last else range(few)]
                left -= few
    fill_up(taken, count, rows, length)
    return taken


def apart(length: int, sizes: list[int], share: float) -> Iterator[range]:
    """Rows of one shard, so many at each of several places.

    Args:
        length: rows of the shard.
        sizes: rows at each place.
        share: where a single place lies, from 0, the shard's beginning, to 1.
    """
    for at, size in enumerate(sizes):
        where = at / (len(sizes) - 1) if len(sizes) > 1 else share
        start = int((length - size) * where)
        yield range(start, start + size)


def fill_up(taken: Taken, count: int, rows: int, length: Callable[[int], int]) -> None:
    """Take more from the first shards on, where places had fewer rows than their share."""
    left = rows - sum(len(each) for ranges in taken.values() for each in ranges)
    for at in range(count):
        if left <= 0:
            return
        have, most = sum(map(len, taken.get(at, []))), length(at)
        more = min(left, most - have)
        if more > 0:
            taken[at] = [range(have + more)]
            left -= more
