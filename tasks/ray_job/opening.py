"""Opens the shards of a share, one after another; small files many at a time."""

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from tasks.errors import BatchInferenceError, InputChanged
from tasks.kinds.sources import Source
from tasks.kinds.sources.source import BYTES_PER_READ, BadRow, Read
from tasks.protocol.ids import IdRuns, Ids
from tasks.protocol.plan_file import Shard
from tasks.protocol.storage import FsspecStorage, open_storage
from tasks.ray_job.job import Job
from tasks.ray_job.stage_error import stage_error

SMALL_FILE_READERS = 16
FILES_AT_A_TIME = 64


@dataclass(frozen=True)
class OpenShard:
    """A shard being read."""

    shard: Shard
    covered: Ids
    """Rows to leave out: an earlier attempt has settled them."""
    reads: Iterator[Read]
    storage: FsspecStorage

    def check_unchanged(self) -> None:
        """See that what was read so far is what was planned; before any of it is handed on.

        One look after reading is enough: had the input changed before or meanwhile, it shows.

        Raises:
            InputChanged: the input was rewritten or is gone.
        """
        stat = self.storage.stat(self.shard.path)
        if stat is None or stat.identity != self.shard.identity:
            changed = InputChanged("the file was rewritten after it was planned")
            raise changed.locate("read", self.shard.path)


def open_shards(job: Job, start: int, stop: int) -> Iterator[OpenShard]:
    """The shards from `start` to `stop` of the attempt's todo, in order.

    Raises:
        InputChanged: an input is gone or was rewritten.
        StageFailed: storage failed; names the file and the row.
    """
    source = job.spec.source
    storage, _ = open_storage(source.paths[0], source.storage_options)
    todo = load_todo(job, start, stop)
    reader = job.pins["reader"]
    if not source.one_row_per_file:
        for shard, covered in todo:
            yield OpenShard(shard, covered, read_rows(source, storage, shard, reader), storage)
        return

    def fetch(item: tuple[Shard, Ids]) -> OpenShard:
        reads = list(read_rows(source, storage, item[0], reader))
        opened = OpenShard(*item, iter(reads), storage)
        opened.check_unchanged()
        return opened

    with ThreadPoolExecutor(SMALL_FILE_READERS) as pool:
        for group in groups(todo):
            yield from pool.map(fetch, group)


def groups(todo: list[tuple[Shard, Ids]]) -> Iterator[list[tuple[Shard, Ids]]]:
    """Small files as they are read together: not too many, and not too much."""
    group: list[tuple[Shard, Ids]] = []
    size = 0
    for item in todo:
        group.append(item)
        size += item[0].size
        if len(group) == FILES_AT_A_TIME or size >= BYTES_PER_READ:
            yield group
            group, size = [], 0
    yield group


def load_todo(job: Job, start: int, stop: int) -> list[tuple[Shard, Ids]]:
    """A share of the todo: shards, and the ids to leave out of each.

    Raises:
        StageFailed: the output's storage failed.
    """
    try:
        file = pq.ParquetFile(io.BytesIO(job.storage.read(job.todo)))
    except Exception as error:
        raise stage_error(error).locate("read", job.todo) from error
    at = 0
    todo = []
    for group in range(file.num_row_groups):
        length = file.metadata.row_group(group).num_rows
        if at < stop and at + length > start:
            table = file.read_row_group(group).slice(max(0, start - at))
            table = table.slice(0, stop - max(start, at))
            for line in table.to_pylist():
                runs = IdRuns(tuple((run[0], run[1], run[2]) for run in line.pop("covered")))
                todo.append((Shard(**line), runs.ids()))
        at += length
    return todo


def up_to(rows: int | None, reads: Iterator[Read]) -> Iterator[Read]:
    """The first so many rows: a limited run plans only the beginning of a shard."""
    if rows is None:
        yield from reads
        return
    for read in reads:
        yield read if isinstance(read, BadRow) else read.slice(0, rows)
        rows -= 1 if isinstance(read, BadRow) else min(rows, len(read))
        if rows == 0:
            return


def read_rows(
    source: Source, storage: FsspecStorage, shard: Shard, reader: dict[str, Any]
) -> Iterator[Read]:
    """A shard's rows; errors say where they happened."""
    row = shard.first_row
    try:
        for read in up_to(shard.rows, source.read(storage, shard, reader)):
            yield read
            row += 1 if isinstance(read, BadRow) else len(read)
    except FileNotFoundError as error:
        gone = InputChanged("the file was there when it was planned and is gone")
        raise gone.locate("read", shard.path) from error
    except BatchInferenceError as error:
        error.locate("read", shard.path, row)
        raise
    except Exception as error:
        raise stage_error(error).locate("read", shard.path, row) from error
