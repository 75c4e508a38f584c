"""Ray's last end: each write task leaves files and one record."""

from collections.abc import Iterable

import pyarrow as pa
from ray.data.block import BlockAccessor
from ray.data.datasource import Datasink

from tasks.ray_job.counts import Reporter
from tasks.ray_job.datasource import from_block
from tasks.ray_job.job import Job
from tasks.ray_job.writing import batches_per_write, write_reported


class RecordDatasink(Datasink):
    """Writes batches as files and records."""

    def __init__(self, job: Job, report: Reporter) -> None:
        self.job = job
        self.report = report

    def get_name(self) -> str:
        """Name of Ray's operator, after the stage."""
        return "write"

    @property
    def min_rows_per_write(self) -> int | None:
        """Batches to wait for, where the sink wants bigger files."""
        count = batches_per_write(self.job)
        return count if count > 1 else None

    def write(self, blocks: Iterable[pa.Table], ctx: object) -> None:
        """Write what a task was given; Ray would keep any return value for ever."""
        batches = (
            batch
            for block in blocks
            for batch in from_block(BlockAccessor.for_block(block).to_arrow())
        )
        if "write" not in self.job.stages:
            # One by one: Ray may have fused this with reading, and blocks are a whole share then.
            for batch in batches:
                write_reported(self.job, [batch], self.report)
        elif given := list(batches):
            write_reported(self.job, given, self.report)
