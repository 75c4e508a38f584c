"""How many rows of a table, or of a Parquet file, come at a time."""

import re
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.kinds.sources.source import (
    BYTES_OF_NUMBER,
    BYTES_PER_READ,
    NUMBERS_PER_READ,
    ROWS_PER_READ,
)

BYTES_TOGETHER = 4 << 20


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches of few bytes as one table: what is done to each takes as long as what is in it.

    Where reading fails, the rows before come before the error.
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    try:
        for batch in batches:
            held.append(batch)
            rows, size = rows + len(batch), size + batch.nbytes
            if rows >= NUMBERS_PER_READ or size >= BYTES_TOGETHER:
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
    except Exception:
        if held:
            yield pa.Table.from_batches(held)
        raise
    if held:
        yield pa.Table.from_batches(held)


def rows_at_once(schema: pa.Schema, names: list[str]) -> int:
    """Rows that a read may have: of numbers it is certain how much memory they take."""
    types = [schema.field(name).type for name in names]
    if not types or not all(map(is_small_number, types)):
        return ROWS_PER_READ
    return max(1, min(NUMBERS_PER_READ, BYTES_PER_READ // (BYTES_OF_NUMBER * len(types))))


def is_small_number(kind: pa.DataType) -> bool:
    """Whether a value takes at most eight bytes."""
    return pa.types.is_primitive(kind) and kind.bit_width <= 8 * BYTES_OF_NUMBER


def rows_per_read(group: pq.RowGroupMetaData, names: set[str]) -> int:
    """Rows of a group that fit a read; of numbers it is certain, of text the file's figures tell.

    These may be far too low: a long text that comes often is counted once.
    """
    chunks = [group.column(at) for at in range(group.num_columns)]
    wanted = [each for each in chunks if is_within(each.path_in_schema, names)]
    if wanted and all(is_flat_number(each, names) for each in wanted):
        return max(1, min(NUMBERS_PER_READ, BYTES_PER_READ // (BYTES_OF_NUMBER * len(wanted))))
    size = sum(each.total_uncompressed_size for each in wanted)
    return max(1, min(ROWS_PER_READ, BYTES_PER_READ * group.num_rows // max(1, size)))


def is_within(path: str, names: set[str]) -> bool:
    """Whether a leaf is one of some columns, or in one; names may have dots, as `user.name`."""
    ends = (at.start() for at in re.finditer(r"\.|\Z", path))
    return any(path[:end] in names for end in ends)


def is_flat_number(chunk: pq.ColumnChunkMetaData, names: set[str]) -> bool:
    """Whether a column of these has one number a row, or a date or truth value."""
    return chunk.path_in_schema in names and not chunk.physical_type.endswith("BYTE_ARRAY")
