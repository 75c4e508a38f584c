"""How many small files a run would write, before it has: what a preview's rows tell of folders."""

from typing import Any

import pyarrow as pa

from tasks.kinds.clusters import InlineCluster
from tasks.kinds.sinks.partitions import folders_of
from tasks.ray_job.batch_sizes import ROWS_OF_NUMBERS
from tasks.reporting.file_sizes import MANY_FILES
from tasks.spec import BatchInferenceSpec

SMALL_ROWS = 1_000
"""Files of fewer take readers longer to open than to read."""


def small_files_told(
    spec: BatchInferenceSpec, reader: dict[str, Any], previewed: pa.Table | None, rows: int | None
) -> str | None:
    """What to know of a run whose writes make a file in each of many folders; None where few do.

    On Ray each batch is written as it comes, and nobody knows how long the next one takes; in one
    process rows wait for others of their folders.

    Args:
        spec: what a run would do.
        reader: what the source has pinned.
        previewed: some of its rows.
        rows: how many there are in all, where that is known.
    """
    sink = spec.sink
    if not sink.partition_by or previewed is None or rows is None:
        return None
    if isinstance(spec.cluster, InlineCluster) and sink.rows_per_file is None:
        return None
    numbers = ROWS_OF_NUMBERS if spec.source.has_numbers_only(reader) else 0
    together = max(spec.rows_per_batch, sink.rows_per_file or numbers)
    folders = len(folders_of(previewed, sink.partition_by))
    files, rows_of_each = folders * -(-rows // together), together // folders
    if files <= MANY_FILES or rows_of_each >= SMALL_ROWS:
        return None
    return (
        f"{files:,} or more, of some {rows_of_each:,} rows or fewer: by sink.partition_by each "
        f"write of {together:,} rows makes one in every folder that it has rows of; with "
        "sink.rows_per_file, as many as there are folders times the rows that a file should have, "
        "they are larger"
    )
