"""Ray's first end: read tasks over shares of the attempt's shards.

One Ray row is one batch of ours: Ray neither splits nor merges it, knows no user column, and
its schema never changes.
"""

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata
from ray.data.context import DataContext

from tasks.protocol.batch import RowBatch
from tasks.ray_job.counts import Reporter
from tasks.ray_job.job import Job
from tasks.ray_job.reading import read_reported

COLUMN = "batch"


def to_block(batch: RowBatch) -> pa.Table:
    """A batch as a Ray block of one row."""
    data = batch.to_bytes()
    # From buffers, and not from a Python list: pyarrow 26 never frees a memoryview it was given.
    offsets = pa.py_buffer(np.array([0, data.size], dtype=np.int64))
    return pa.table({COLUMN: pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, data])})


def from_block(block: pa.Table) -> list[RowBatch]:
    """The batches of a Ray block, without copying their rows, as pyarrow's scalars do."""
    return [
        RowBatch.from_bytes(data) for chunk in block[COLUMN].chunks for data in buffers_of(chunk)
    ]


def buffers_of(values: pa.LargeBinaryArray) -> Iterator[pa.Buffer]:
    """The bytes of each value, where they lie."""
    if len(values):
        _, offsets, data = values.buffers()
        ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
        for start, stop in itertools.pairwise(ends.tolist()):
            yield data.slice(start, stop - start)


class ShardDatasource(Datasource):
    """Reads shares of the shards; each task loads its own share of the todo."""

    def __init__(self, job: Job, shares: list[tuple[int, int]], report: Reporter) -> None:
        self.job = job
        self.shares = shares
        self.report = report

    def get_name(self) -> str:
        """Name of Ray's operator, after the stage."""
        return "read"

    def estimate_inmemory_data_size(self) -> int | None:
        """Not known before reading."""
        return None

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """One task a share."""
        metadata = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [
            ReadTask(partial(read_blocks, self.job, start, stop, self.report), metadata)
            for start, stop in self.shares
        ]


def read_blocks(job: Job, start: int, stop: int, report: Reporter) -> Iterator[pa.Table]:
    """Read a share as Ray blocks, reporting as it goes."""
    for batch in read_reported(job, start, stop, report):
        yield to_block(batch)
