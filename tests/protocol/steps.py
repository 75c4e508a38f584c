"""The steps of plan → records → commit at which something can go wrong, and a run that takes them.

For tables there is one step more, see `tests/tables`: the commit that an applied entry makes.
"""

from collections import Counter
from typing import Any

import pyarrow as pa

from tasks.errors import StaleLedger
from tasks.kinds.sinks import Sink
from tasks.protocol.acceptance import Accepted, accept, find_gap
from tasks.protocol.applying import bring_up_to_date
from tasks.protocol.batch import ROW, Rejection, RowBatch, ShardEnd
from tasks.protocol.ids import row_id
from tasks.protocol.layout import OutputFolder, RunFolder
from tasks.protocol.plan_file import (
    Plan,
    Shard,
    first_plan,
    load_plan,
    save_plan,
    shard_table,
    shards_of,
)
from tasks.protocol.publication import Publication
from tasks.protocol.publishing import publish
from tasks.protocol.records import Encoded, Part, load_records, store
from tasks.ray_job.writing import QUARANTINE, QUARANTINE_SCHEMA

STEPS = {
    "plan": ("write", "/plans/"),
    "data file": ("write", "/staging/"),
    "record": ("write", "/records/"),
    "ledger": ("commit", ""),
    "move": ("move", "/staging/"),
    "removal": ("delete", ""),
    "marker": ("write", "/_SUCCESS"),
    "version applied": ("write", "/applied"),
    "manifest": ("write", "/manifests/"),
}
CRASH_BEFORE, CRASH_AFTER = "crash before", "crash after"
EXCEPTION, LOST_REPLY, TWICE = "exception at", "lost reply of", "second delivery of"
FAULTS = (CRASH_BEFORE, CRASH_AFTER, EXCEPTION, LOST_REPLY, TWICE)
ROWS = 3
SET_ASIDE = 1


class Killed(BaseException):
    """The process is gone."""


class Fault:
    """Something that happens once, the n-th time that a step is taken."""

    def __init__(self, step: str = "", number: int = 0, how: str = "") -> None:
        self.step, self.number, self.how = step, number, how
        self.taken: Counter[str] = Counter()
        self.has_struck = self.task_comes_again = False

    def strike(self, call: str, path: str, function: Any, arguments: tuple[Any, ...]) -> Any:
        """Make a call, or not, or twice."""
        step = next((n for n, (c, piece) in STEPS.items() if c == call and piece in path), "")
        self.taken[step] += 1
        if self.has_struck or step != self.step or self.taken[step] != self.number:
            return function(*arguments)
        self.has_struck = True
        if self.how == CRASH_BEFORE:
            raise Killed
        if self.how == EXCEPTION:
            raise OSError("the storage failed")
        function(*arguments)
        if self.how == CRASH_AFTER:
            raise Killed
        if self.how == LOST_REPLY:
            raise StaleLedger("lost") if call == "commit" else ConnectionError("lost")
        self.task_comes_again = step in ("data file", "record")
        return function(*arguments)  # a second time: whoever asks gets the second answer

    def before(self, whole: Any) -> "Faulty":
        """A storage or a ledger, seen by the process that the fault happens to."""
        return Faulty(self, whole)


class Faulty:
    """Stands before a storage or a ledger."""

    def __init__(self, fault: Fault, whole: Any) -> None:
        self.fault, self.whole = fault, whole

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.whole, name)
        if name not in ("write", "move", "delete", "commit"):
            return found
        return lambda *given: self.fault.strike(name, str(given[0]), found, given)


class Process:
    """Plans what is not published, writes and publishes it, and leaves a manifest."""

    def __init__(self, storage: Any, ledger: Any, sink: Sink, fault: Fault) -> None:
        self.storage, self.ledger = fault.before(storage), fault.before(ledger)
        self.sink, self.fault = sink, fault
        self.output = OutputFolder(sink.path, sink.as_table())

    def run(self, inputs: dict[str, str]) -> None:
        """Run on inputs of three rows each; nothing happens where all of them are published."""
        seen = bring_up_to_date(self.storage, self.ledger, self.output)
        lines = seen.inputs.select(["path", "identity"]).to_pydict()
        done = dict(zip(lines["path"], lines["identity"], strict=True))
        left = {path: name for path, name in inputs.items() if done.get(path) != name}
        for entry in seen.entries.values():
            self.save_manifest(entry["run_id"])
        if not left:
            return
        run = self.output.run(f"run-{seen.version}")
        plan = load_plan(self.storage, run)
        if plan is None:
            shards = [Shard(0, path, name, 1, rows=ROWS) for path, name in left.items()]
            plan = first_plan(shard_table(shards), {"ledger_version": seen.version})
            save_plan(self.storage, run, plan)
        accepted = self.write_what_is_left(run, plan)
        publish(self.storage, self.ledger, self.output, self.publication(run, plan, accepted))
        self.save_manifest(run.run_id)

    def save_manifest(self, run_id: str) -> None:
        """Once: it is the run's own."""
        path = self.output.manifest(run_id)
        if self.storage.stat(path) is None:
            self.storage.write(path, b"{}")

    def write_what_is_left(self, run: RunFolder, plan: Plan) -> Accepted:
        """A write task for each shard that has something left."""
        accepted = accept(load_records(self.storage, run), plan)
        left = find_gap(plan, accepted, retry_rejected=False).shards
        for shard in shards_of(plan.shards.take(pa.array(left, pa.int64()))):
            store(self.storage, run, plan.digest, batch_of(shard), self.encode)
            if self.fault.task_comes_again:
                self.fault.task_comes_again = False
                store(self.storage, run, plan.digest, batch_of(shard), self.encode)
        return accept(load_records(self.storage, run), plan)

    def publication(self, run: RunFolder, plan: Plan, accepted: Accepted) -> Publication:
        """What is to be published of it."""
        sink = self.sink
        return Publication(
            f"key-{run.run_id}", run, plan, accepted, sink.suffix, sink.drop_rows,
            QUARANTINE.drop_rows,
        )  # fmt: skip

    def encode(self, batch: RowBatch) -> Encoded:
        """As a write task does, with the sink's own files."""
        rows = batch.rows.drop_columns(ROW)
        aside = [{**each.__dict__, "run_id": "r"} for each in batch.rejected]
        data = QUARANTINE.encode(pa.Table.from_pylist(aside, QUARANTINE_SCHEMA))
        ids = pa.array([each.id for each in batch.rejected]).to_numpy()
        rows = rows.cast(self.sink.schema_for(rows.schema))
        return Encoded(self.sink.parts(rows, batch.ids), Part(data, ".parquet", ids), "schema")

    def published(self) -> list[tuple[Any, ...]]:
        """Rows of the files that lie in the output's folder."""
        paths = [stat.path for stat in self.storage.list(self.output.path)]
        tables = [self.sink.decode(self.storage.read(p)) for p in paths if "/part-" in p]
        return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())

    def set_aside(self) -> list[tuple[str, int]]:
        """Rows in the quarantine's folder."""
        paths = [stat.path for stat in self.storage.list(self.output.quarantine)]
        rows = [QUARANTINE.decode(self.storage.read(path)).to_pylist() for path in paths]
        return sorted((row["source"], row["row"]) for each in rows for row in each)


def batch_of(shard: Shard) -> RowBatch:
    """An input's rows, the second of them set aside."""
    kept = [row for row in range(ROWS) if row != SET_ASIDE]
    rows = {
        ROW: pa.array([row_id(shard.number, row) for row in kept], pa.int64()),
        "path": [shard.path] * len(kept),
        "identity": [shard.identity] * len(kept),
        "row": kept,
    }
    aside = row_id(shard.number, SET_ASIDE)
    rejected = Rejection(aside, shard.path, SET_ASIDE, "infer", "ValueError", "bad", "{}")
    return RowBatch(pa.table(rows), (rejected,), ends=(ShardEnd(shard.number, ROWS),))
