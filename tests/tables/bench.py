"""A table to publish into by hand: rows of three inputs, in a format's own files."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.kinds.sinks import Sink
from tasks.protocol.acceptance import Accepted, accept
from tasks.protocol.batch import ROW, RowBatch
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.ids import row_id
from tasks.protocol.layout import OutputFolder, RunFolder
from tasks.protocol.ledger import Ledger
from tasks.protocol.plan_file import Shard, first_plan, shard_table, shards_of
from tasks.protocol.publication import Publication
from tasks.protocol.publishing import publish
from tasks.protocol.records import Encoded, load_records, store
from tasks.protocol.storage import FsspecStorage, Storage, open_storage
from tasks.protocol.table import Table
from tasks.publishing.judging import staged_files
from tasks.publishing.output_rows import OutputReader
from tasks.publishing.row_keys import RowKeys, staged_ids

Row = tuple[str, str, int]
"""Input, its content's identity, row."""


def rows_of(inputs: dict[str, str]) -> list[Row]:
    """What is to be published of inputs: three rows of each."""
    return sorted((path, identity, row) for path, identity in inputs.items() for row in range(3))


@dataclass
class TableBench:
    """An output that is a table."""

    sink: Sink

    @cached_property
    def place(self) -> tuple[FsspecStorage, str]:
        """Storage and path."""
        return open_storage(self.sink.path, self.sink.storage_options)

    @cached_property
    def storage(self) -> Storage:
        """Where it lies; a test may put a faulty one in its place."""
        return self.place[0]

    @cached_property
    def ledger(self) -> Ledger:
        """A test may put a faulty one in its place."""
        remote = "://" in self.sink.path
        url = f"s3://{self.place[1]}" if remote else self.place[1]
        return DeltaLedger(f"{url}.state/ledger", self.sink.storage_options)

    @cached_property
    def table(self) -> Table:
        """A test may put a faulty one in its place."""
        table = self.sink.as_table()
        assert table is not None
        return table

    @property
    def kind(self) -> str:
        """The format."""
        kind: str = self.sink.model_dump()["kind"]
        return kind

    @property
    def output(self) -> OutputFolder:
        """The output's folders."""
        return OutputFolder(self.place[1], self.table)

    def prepare(self, key: str, inputs: dict[str, str], **more: Any) -> Publication:
        """A run on inputs, all in one file, not yet published."""
        shards = [Shard(0, path, identity, 1, rows=3) for path, identity in inputs.items()]
        plan = first_plan(shard_table(shards), {"ledger_version": self.ledger.look().version})
        run = self.output.run(f"run-{key}")
        batch = batch_of(shards_of(plan.shards), more.pop("extra", {}), more.pop("pieces", None))
        schema = self.sink.schema_for(batch.rows.drop_columns(ROW).schema)
        store(self.storage, run, plan.digest, batch, lambda batch: self.encode(batch, schema))
        accepted = accept(load_records(self.storage, run), plan)
        details = {"schema": schema.serialize().to_pybytes().hex()}
        return Publication(
            key, run, plan, accepted, self.sink.suffix, self.sink.drop_rows,
            lambda data, keep: data, details=details, keys=self.keys(run, accepted, schema), **more,
        )  # fmt: skip

    def keys(self, run: RunFolder, accepted: Accepted, schema: pa.Schema) -> RowKeys | None:
        """Of a run's rows, where they have any."""
        key, (storage, _) = self.sink.row_key, self.place
        reader = OutputReader(storage, self.sink, schema, key)
        staged, ids = staged_files(run, accepted), staged_ids(accepted)
        return RowKeys(reader, self.output, staged, key, self.sink.newest, ids) if key else None

    def encode(self, batch: RowBatch, schema: pa.Schema) -> Encoded:
        """As a write task does."""
        rows = batch.rows.drop_columns(ROW).cast(schema)
        return Encoded(self.sink.parts(rows, batch.ids), None, "schema")

    def put(self, what: Publication) -> int:
        """Publish."""
        return publish(self.storage, self.ledger, self.output, what)

    def run(self, key: str, inputs: dict[str, str], **more: Any) -> Publication:
        """Prepare and publish."""
        what = self.prepare(key, inputs, **more)
        self.put(what)
        return what


def batch_of(shards: list[Shard], extra: dict[str, Any], pieces: list[int] | None) -> RowBatch:
    """Rows with a text, a number and a vector each.

    Args:
        shards: three rows of each.
        extra: further columns.
        pieces: how many of them each row was cut into; None: none was.
    """
    pairs = [(shard, row) for shard in shards for row in range(3)]
    numbers = np.arange(len(pairs), dtype=np.float32)
    vectors = pa.array(np.repeat(numbers, 4), pa.float32())
    rows = pa.table(
        {
            ROW: pa.array([row_id(shard.number, row) for shard, row in pairs], pa.int64()),
            "path": [shard.path for shard, _ in pairs],
            "identity": [shard.identity for shard, _ in pairs],
            "row": [row for _, row in pairs],
            "score": numbers / 8,
            "embedding": pa.FixedSizeListArray.from_arrays(vectors, 4),
            "top": [[{"label": "a", "score": 0.5}]] * len(pairs),
            **{name: column(value, len(pairs)) for name, value in extra.items()},
        }
    )
    at = np.repeat(np.arange(len(rows)), 1 if pieces is None else pieces)
    return RowBatch(rows.take(pa.array(at)))


def column(value: Any, num_rows: int) -> pa.Array:
    """One value for all rows, or a value each."""
    return value if isinstance(value, pa.Array) else pa.array([value] * num_rows)
