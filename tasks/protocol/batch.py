"""What travels from stage to stage: rows, and what became of those that travel no further.

A batch is never split or merged on its way, so the children of one row stay together and its
ids stay unique. It crosses process boundaries as one Arrow IPC stream.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tasks.errors import SchemaMismatch
from tasks.protocol.ids import IdRuns, Ids, are_in, as_ids, distinct, row_of, shard_of

ROW = "__row"
PUBLISHED_ROW = "__published_row"
"""Beside `ROW` where rows are predicted again only to be compared: their ids in the runs that have
published them, by which tokens are drawn. Rows of several runs may have the same."""
PLANNED_ON = "__planned_on"
"""Beside `ROW` where the model writes dates into prompts: day on which the run was planned that
predicts the row, or that has published it. In UTC, as in `2026-11-30`."""
RESERVED = "__"
METADATA_KEY = b"batch"

Together: TypeAlias = Callable[[list[pa.Table]], pa.Table]
"""Several tables as one."""


@dataclass(frozen=True)
class Rejection:
    """A row set aside, with the reason a person reads."""

    id: int
    source: str
    row: int
    stage: str
    error_type: str
    error_message: str
    input_json: str


@dataclass(frozen=True)
class ShardEnd:
    """A reader came to the end of a shard and had counted this many rows."""

    shard: int
    rows: int


@dataclass(frozen=True)
class RowBatch:
    """Rows with their ids in the column `__row`; one id repeated is one row's children."""

    rows: pa.Table
    rejected: tuple[Rejection, ...] = ()
    filtered: IdRuns = IdRuns()
    ends: tuple[ShardEnd, ...] = ()
    sources: dict[int, str] = field(default_factory=dict)
    """Path of each shard that the rows come from."""
    first_rows: dict[int, int] = field(default_factory=dict)
    """Where a shard starts in its file, in rows; only where that is not 0."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Busy seconds by stage."""
    inferred_at: tuple[float, float] | None = None
    """When the model took its first and gave its last row, seconds since the epoch."""

    @property
    def ids(self) -> Ids:
        """The id of every row, in order."""
        return self.rows[ROW].to_numpy()

    def where(self, row_id: int) -> tuple[str, int]:
        """The file and the row in it that an id stands for."""
        shard, row = shard_of(row_id), row_of(row_id)
        return self.sources.get(shard, f"shard {shard}"), row + self.first_rows.get(shard, 0)

    def to_bytes(self, compression: str | None = None) -> pa.Buffer:
        """As an Arrow IPC stream."""
        details = {
            "rejected": [asdict(rejection) for rejection in self.rejected],
            "filtered": self.filtered.plain,
            "ends": [asdict(end) for end in self.ends],
            "sources": list(self.sources.items()),
            "first_rows": list(self.first_rows.items()),
            "seconds": self.seconds,
            "inferred_at": self.inferred_at,
        }
        metadata = {**(self.rows.schema.metadata or {}), METADATA_KEY: json.dumps(details)}
        table = self.rows.replace_schema_metadata(metadata)
        if compression:
            return write_table(table, pa.BufferOutputStream(), compression).getvalue()
        # A stream that grows copies what it has each time, into fresh memory: 20 times as dear.
        size = write_table(table, pa.MockOutputStream()).size()
        written = pa.allocate_buffer(size)
        write_table(table, pa.FixedSizeBufferWriter(written))
        return written

    @classmethod
    def from_bytes(cls, data: pa.Buffer) -> "RowBatch":
        """Read back, without copying the rows."""
        table = pa.ipc.open_stream(data).read_all()
        # Its ids are asked for again and again, and only of one chunk that takes no copying.
        ids = pa.chunked_array([table[ROW].combine_chunks()], pa.int64())
        table = table.set_column(table.column_names.index(ROW), ROW, ids)
        metadata = dict(table.schema.metadata)
        details = json.loads(metadata.pop(METADATA_KEY))
        span = details["inferred_at"]
        return cls(
            rows=table.replace_schema_metadata(metadata or None),
            rejected=tuple(Rejection(**rejection) for rejection in details["rejected"]),
            filtered=IdRuns.of_plain(details["filtered"]),
            ends=tuple(ShardEnd(**end) for end in details["ends"]),
            sources=dict(details["sources"]),
            first_rows=dict(details["first_rows"]),
            seconds=details["seconds"],
            inferred_at=(span[0], span[1]) if span else None,
        )


def write_table(table: pa.Table, stream: Any, compression: str | None = None) -> Any:
    """Write rows as an Arrow IPC stream, and give back what was written to."""
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(stream, table.schema, options=options) as writer:
        writer.write_table(table)
    return stream


def settled_ids(batch: RowBatch) -> Ids:
    """Ids with an outcome in this batch; sorted, each once."""
    rejected = as_ids(each.id for each in batch.rejected)
    return distinct(np.concatenate([batch.ids, batch.filtered.ids(), rejected]))


def without(batch: RowBatch, ids: Ids) -> RowBatch:
    """The batch less every outcome of `ids`, which are sorted."""
    gone, filtered = {*ids.tolist()} if batch.rejected else set(), batch.filtered.ids()
    return replace(
        batch,
        rows=batch.rows.filter(pa.array(~are_in(ids, batch.ids))),
        rejected=tuple(each for each in batch.rejected if each.id not in gone),
        filtered=IdRuns.of(filtered[~are_in(ids, filtered)]),
    )


def each_once(batches: list[RowBatch]) -> list[RowBatch]:
    """Batches less those outcomes that an earlier one has."""
    settled = [settled_ids(batch) for batch in batches]
    everything = np.concatenate(settled)
    if len(distinct(everything)) == len(everything):
        return batches  # as nearly always
    seen, kept = as_ids(()), list[RowBatch]()
    for batch, ids in zip(batches, settled, strict=True):
        again = ids[are_in(seen, ids)]
        kept.append(without(batch, again) if len(again) else batch)
        seen = distinct(np.append(seen, ids))
    return kept


def in_one_table(tables: list[pa.Table]) -> pa.Table:
    """The rows of several batches; a column of whole numbers here, fractions there has fractions.

    Raises:
        SchemaMismatch: a column has types that do not go together; names it.
    """
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        wrong = "; ".join(different_types(tables))
        raise SchemaMismatch(
            f"batches written together have different types: {wrong}: {error}: make every batch "
            "return the same types"
        ) from error


def different_types(tables: list[pa.Table]) -> list[str]:
    """Which columns have which types, where these are more than one."""
    types: dict[str, list[str]] = {}
    for table in tables:
        for column in table.schema:
            types.setdefault(column.name, []).append(str(column.type))
    found = {name: dict.fromkeys(of_each) for name, of_each in types.items()}
    return [f"{name} is {' and '.join(own)}" for name, own in found.items() if len(own) > 1]


def merge(batches: list[RowBatch], together: Together = in_one_table) -> RowBatch:
    """One batch of several; of a row that a replay handed over twice, the first is kept.

    Args:
        batches: at least one.
        together: makes one table of those of the batches that have rows.

    Raises:
        BatchInferenceError: the batches' rows do not go together.
    """
    if len(batches) == 1:
        return batches[0]
    kept = each_once(batches)
    spans = [batch.inferred_at for batch in kept if batch.inferred_at]
    seconds: dict[str, float] = {}
    for batch in kept:
        for stage, spent in batch.seconds.items():
            seconds[stage] = seconds.get(stage, 0.0) + spent
    # A batch with no rows left need not know the columns of the others.
    full = [batch.rows for batch in kept if len(batch.rows)] or [kept[0].rows]
    return RowBatch(
        rows=together(full),
        rejected=tuple(rejection for batch in kept for rejection in batch.rejected),
        filtered=IdRuns.of(np.concatenate([batch.filtered.ids() for batch in kept])),
        ends=tuple(end for batch in kept for end in batch.ends),
        sources={shard: path for batch in kept for shard, path in batch.sources.items()},
        first_rows={shard: row for batch in kept for shard, row in batch.first_rows.items()},
        seconds=seconds,
        inferred_at=(min(s[0] for s in spans), max(s[1] for s in spans)) if spans else None,
    )
