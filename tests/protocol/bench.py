"""A place to publish by hand, in memory or on a disk."""

import json
from pathlib import Path
from typing import Any

import fsspec
import numpy as np

from tasks.protocol.acceptance import accept
from tasks.protocol.batch import Rejection, RowBatch
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.ids import row_id
from tasks.protocol.layout import OutputFolder
from tasks.protocol.ledger import Ledger, Snapshot
from tasks.protocol.plan_file import Shard, first_plan, shard_table, shards_of
from tasks.protocol.publication import Publication
from tasks.protocol.publishing import publish
from tasks.protocol.records import Encoded, Part, load_records, store
from tasks.protocol.rewriting import read_published
from tasks.protocol.storage import FsspecStorage, Storage
from tests.simulation.storage import Calm, SimLedger, SimStorage
from tests.simulation.writing import drop_rows, table_of

Row = tuple[str, str, int]
"""Path, identity, row."""


def content_of(shard: Shard) -> tuple[str, str, int | None, int | None]:
    """What makes two shards the same in two plans."""
    return shard.path, shard.identity, shard.start, shard.stop


class Bench:
    """An output, and runs made for it."""

    def __init__(self, storage: Storage, ledger: Ledger, path: str) -> None:
        self.storage, self.ledger, self.output = storage, ledger, OutputFolder(path)

    def prepare(
        self,
        key: str,
        inputs: dict[str, str],
        *,
        rejects: int | None = None,
        writes: int = 1,
        **more: Any,
    ) -> Publication:
        """A run on inputs of three rows each, written in so many records, not yet published."""
        shards = [Shard(0, path, identity, 1, rows=3) for path, identity in inputs.items()]
        plan = first_plan(shard_table(shards), {"ledger_version": self.ledger.look().version})
        run = self.output.run(f"run-{key}")
        rows = [(shard, row) for shard in shards_of(plan.shards) for row in range(3)]
        for mine in np.array_split(np.arange(len(rows)), writes):
            batch = batch_of([rows[at] for at in mine.tolist()], rejects)
            store(self.storage, run, plan.digest, batch, encode)
        accepted = accept(load_records(self.storage, run), plan)
        return Publication(key, run, plan, accepted, ".json", drop_rows, drop_rows, **more)

    def published(self, seen: Snapshot | None = None) -> list[Row]:
        """Rows by following the ledger."""
        seen = seen or self.ledger.look()
        return self.rows_in(
            [read_published(self.storage, self.output, f) for f in seen.files.values()]
        )

    def set_aside(self) -> list[Row]:
        """Rejected rows by following the ledger."""
        files = self.ledger.look().quarantine.values()
        return self.rows_in([read_published(self.storage, self.output, file) for file in files])

    def listed(self) -> list[Row]:
        """Rows by listing the folder."""
        paths = [stat.path for stat in self.storage.list(self.output.path)]
        return self.rows_in([self.storage.read(path) for path in paths if path.endswith(".json")])

    def rows_in(self, contents: list[bytes]) -> list[Row]:
        return sorted(
            tuple(json.loads(value)) for data in contents for _, value in json.loads(data)
        )


def batch_of(rows: list[tuple[Shard, int]], rejects: int | None) -> RowBatch:
    pairs = [
        (row_id(shard.number, row), json.dumps([shard.path, shard.identity, row]), row)
        for shard, row in rows
    ]
    rejected = tuple(
        Rejection(key, "", row, "infer", "E", "", value)
        for key, value, row in pairs
        if row == rejects
    )
    kept = [(key, value) for key, value, row in pairs if row != rejects]
    return RowBatch(table_of(kept), rejected)


def encode(batch: RowBatch) -> Encoded:
    pairs = list(zip(batch.ids.tolist(), batch.rows["value"].to_pylist(), strict=True))
    parts = [Part(json.dumps(pairs).encode(), ".json", batch.ids)] if pairs else []
    aside = [(rejection.id, rejection.input_json) for rejection in batch.rejected]
    ids = np.array([key for key, _ in aside], dtype=np.int64)
    quarantine = Part(json.dumps(aside).encode(), ".parquet", ids) if aside else None
    return Encoded(parts, quarantine, "schema")


def in_memory() -> Bench:
    return Bench(SimStorage(Calm()), SimLedger(Calm()), "out")


def on_disk(folder: Path) -> Bench:
    storage = FsspecStorage(fsspec.filesystem("file"))
    return Bench(storage, DeltaLedger(str(folder / "out.state" / "ledger")), str(folder / "out"))


def put(bench: Bench, key: str, **inputs: str) -> int:
    """Publish a run over inputs, each with its version."""
    what = bench.prepare(key, inputs)
    return publish(bench.storage, bench.ledger, bench.output, what)
