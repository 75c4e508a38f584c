"""Reads batches that another job has kept, in place of the source."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from tasks.outputs import storage_of_materialized
from tasks.protocol.batch import RowBatch
from tasks.protocol.materialized_rows import Kept, take
from tasks.ray_job.counts import Report, Reporter
from tasks.ray_job.job import Job
from tasks.ray_job.opening import todo_lines
from tasks.ray_job.stage_error import stage_error


def read_materialized(job: Job, start: int, stop: int, report: Reporter) -> Iterator[RowBatch]:
    """Read the batches from `start` to `stop` of the attempt's todo.

    The time that reading and the steps took is of the job that kept them.

    Raises:
        StageFailed: storage failed, or a batch is gone; names its file.
    """
    storage = storage_of_materialized(job.spec)
    for lines in todo_lines(job, start, stop):
        for kept in map(Kept.of_line, lines.to_pylist()):
            begun = time.monotonic()
            try:
                batch = RowBatch.from_bytes(pa.py_buffer(storage.read(kept.file)))
            except Exception as error:
                raise stage_error(error).locate("read", kept.file) from error
            yield replace(take(batch, kept), seconds={"read": time.monotonic() - begun})
            report(Report("read", 0, 0, 0, 0.0, size=kept.size))
