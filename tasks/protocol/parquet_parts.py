"""Tables as Parquet of which a reader fetches the parts that it needs."""

import math

import pyarrow as pa
import pyarrow.parquet as pq

FEWEST_ROWS_PER_GROUP = 1_000
ROWS_LIKE_A_GROUP = 24
"""So many rows take about as many bytes as the footer has on a group of rows."""


def parquet_bytes(table: pa.Table, metadata: dict[str, str] | None = None) -> bytes:
    """A table as Parquet that is read in parts, each of them small beside the whole."""
    stream = pa.BufferOutputStream()
    if metadata:
        table = table.replace_schema_metadata(metadata)
    pq.write_table(
        table,
        stream,
        row_group_size=rows_per_group(len(table)),
        compression="zstd",
        write_statistics=False,
    )
    return stream.getvalue().to_pybytes()


def rows_per_group(rows: int) -> int:
    """Rows of a group, so that a group and the footer, which has a line for each, are least."""
    return max(FEWEST_ROWS_PER_GROUP, math.isqrt(ROWS_LIKE_A_GROUP * rows))
