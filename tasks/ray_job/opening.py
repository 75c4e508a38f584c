"""Opens the shards of a share, one after another; small files many at a time."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.errors import BatchInferenceError, InputChanged, StageFailed
from tasks.kinds.sources import Source
from tasks.kinds.sources.source import BYTES_PER_READ, BadRow, Read
from tasks.kinds.sources.table import TableSource
from tasks.protocol.asked_at_once import fetched
from tasks.protocol.fetched_object import with_object
from tasks.protocol.ids import IdRuns, Ids, are_in
from tasks.protocol.object_stat import Stat
from tasks.protocol.plan_file import Shard, shards_of, wanted_of
from tasks.protocol.ranges import IdRanges
from tasks.protocol.storage import FsspecStorage
from tasks.ray_job.job import Job
from tasks.ray_job.stage_error import describe, stage_error

SMALL_FILE_READERS = 16
QUICK_READERS = 32
"""Where a file takes hardly any work, and waiting for it is nearly all."""
SMALL_FILE, SMALL_FILES_BYTES = 256 << 10, 4 << 20
"""Bytes of a file of rows that is read ahead, and of all that are: each may be compressed."""
FILES_AT_A_TIME = 64
QUICK_SECONDS = 0.0005
TABLES: dict[tuple[str, str], FsspecStorage] = {}
"""The version of a table that this process has read last, by attempt and source."""
RECENT = 3
"""Groups of small files whose first ones tell how long one takes."""


@dataclass(frozen=True)
class Todo:
    """What is left to do of a shard."""

    shard: Shard
    covered: IdRanges
    """Rows to leave out: an earlier attempt has settled them."""
    wanted: Ids | None
    """The only rows to take, in order, where a redrive does not want all of them."""
    reader: dict[str, Any]
    """Settings to read it with."""

    @property
    def takes_all(self) -> bool:
        """Whether all of the shard's rows are left to do."""
        return self.wanted is None and not len(self.covered)

    def takes(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Which of the shard's rows are left to do."""
        left = np.ones(len(ids), dtype=bool) if self.wanted is None else are_in(self.wanted, ids)
        return left & ~self.covered.has(ids)


@dataclass(frozen=True)
class OpenShard:
    """A shard being read."""

    todo: Todo
    reads: Iterator[Read]
    source: Source
    storage: FsspecStorage

    @property
    def shard(self) -> Shard:
        """What is read."""
        return self.todo.shard

    def check_unchanged(self) -> None:
        """See that what was read so far is what was planned; before any of it is handed on.

        One look after reading is enough: had the input changed before or meanwhile, it shows.

        Raises:
            InputChanged: the input was rewritten or is gone.
        """
        if not self.source.is_unchanged(self.storage, self.shard):
            way_out = self.source.way_out_of_changes
            changed = InputChanged(f"the input was rewritten after the run was planned{way_out}")
            raise changed.locate("read", self.shard.path)


Fetch = Callable[[Todo], OpenShard]


def open_shards(job: Job, start: int, stop: int) -> Iterator[OpenShard]:
    """The shards from `start` to `stop` of the attempt's todo, in order.

    Raises:
        InputChanged: an input is gone or was rewritten.
        StageFailed: storage failed; names the file and the row.
    """
    for reader, todo in groupby(load_todo(job, start, stop), attrgetter("reader")):
        source = job.spec.source.as_planned(reader)
        yield from open_each(source, storage_of(job, source), todo)


def storage_of(job: Job, source: Source) -> FsspecStorage:
    """What a source reads from; a table's version is opened once by each process of a job.

    It may have a hundred thousand files, which take seconds, and a job has thousands of read tasks.
    """
    if not isinstance(source, TableSource):
        return source.opened(source.paths[0])[0]
    key = job.folder, source.model_dump_json()
    if key not in TABLES:
        TABLES.clear()
        TABLES[key] = source.opened(source.path)[0]
    return TABLES[key]


def open_each(source: Source, storage: FsspecStorage, todo: Iterable[Todo]) -> Iterator[OpenShard]:
    """Shards that are read with the same settings, in order."""
    if not source.one_row_per_file:
        if storage.is_local or source.holds != "file":
            yield from map(partial(opened_as_read, source, storage), todo)
            return
        fetch = partial(fetch_if_small, source, storage)
        yield from fetched(fetch, todo, SMALL_FILE_READERS, size_of, SMALL_FILES_BYTES)
        return
    fetch = partial(fetch_file, source, storage)
    if storage.is_local:
        yield from fetched_near(fetch, todo)
    else:
        readers = QUICK_READERS if storage.quick else SMALL_FILE_READERS
        yield from fetched(fetch, todo, readers, size_of=size_of, most=BYTES_PER_READ)


def opened_as_read(source: Source, storage: FsspecStorage, item: Todo) -> OpenShard:
    """A shard of which nothing is fetched before its rows are wanted."""
    return OpenShard(item, read_rows(source, storage, item), source, storage)


def fetch_if_small(source: Source, storage: FsspecStorage, item: Todo) -> OpenShard:
    """A shard that is read already where it is a small file: of many, each takes a store's answers.

    Raises:
        InputChanged: it is gone or was rewritten.
        StageFailed: storage failed.
    """
    # Of some of the web nobody knows how large they are, which shows as no bytes.
    is_small = 0 < item.shard.size <= SMALL_FILE and item.shard.start is None
    return (fetch_file if is_small else opened_as_read)(source, storage, item)


def size_of(item: Todo) -> int:
    """Bytes of a file."""
    return item.shard.size


def fetch_file(source: Source, storage: FsspecStorage, item: Todo) -> OpenShard:
    """A small file, read whole and found as it was planned.

    Raises:
        InputChanged: it is gone or was rewritten.
        StageFailed: storage failed.
    """
    shard = item.shard
    storage = with_object(storage, Stat(shard.path, shard.size, shard.identity))
    reads = list(read_rows(source, storage, item))
    opened = OpenShard(item, iter(reads), source, storage)
    opened.check_unchanged()
    return opened


def fetched_near(fetch: Fetch, todo: Iterable[Todo]) -> Iterator[OpenShard]:
    """Small files of this machine: threads only help to wait.

    Files of a near disk cost four times the CPU with them.
    """
    recent = deque[float](maxlen=RECENT)
    with ThreadPoolExecutor(SMALL_FILE_READERS) as pool:
        for first, *others in filter(None, groups(todo)):
            begun = time.monotonic()
            opened = fetch(first)
            recent.append(time.monotonic() - begun)
            # The quickest is what counts: one alone may have waited for a core.
            waits = min(recent) > QUICK_SECONDS
            yield opened
            yield from pool.map(fetch, others) if waits else map(fetch, others)


def groups(todo: Iterable[Todo]) -> Iterator[list[Todo]]:
    """Small files as they are read together: not too many, and not too much."""
    group: list[Todo] = []
    size = 0
    for item in todo:
        group.append(item)
        size += item.shard.size
        if len(group) == FILES_AT_A_TIME or size >= BYTES_PER_READ:
            yield group
            group, size = [], 0
    yield group


def load_todo(job: Job, start: int, stop: int) -> Iterator[Todo]:
    """A share of the todo, a row group at a time: in one process it is all, perhaps millions.

    Raises:
        StageFailed: the output's storage failed.
    """
    for table in todo_lines(job, start, stop):
        yield from map(partial(todo_of, job.pins), shards_of(table), table.to_pylist())


def todo_lines(job: Job, start: int, stop: int) -> list[pa.Table]:
    """A share of the todo's lines, of which only what holds them is fetched.

    Raises:
        StageFailed: the output's storage failed.
    """
    try:
        with job.storage.open_in_parts(job.todo_file) as opened:
            return list(lines_of(pq.ParquetFile(opened, pre_buffer=True), start, stop))
    except Exception as error:
        raise stage_error(error).locate("read", job.todo_file) from error


def lines_of(file: pq.ParquetFile, start: int, stop: int) -> Iterator[pa.Table]:
    """The lines from `start` to `stop` of a file, from the row groups that have them."""
    at = 0
    for group in range(file.num_row_groups):
        length = file.metadata.row_group(group).num_rows
        if at < stop and at + length > start:
            table = file.read_row_group(group).slice(max(0, start - at))
            yield table.slice(0, stop - max(start, at))
        at += length


def todo_of(pins: dict[str, Any], shard: Shard, line: dict[str, Any]) -> Todo:
    """A line of the todo; a redrive reads each shard as the run did that it is of."""
    reader = pins["readers"][line["read_as"]] if "read_as" in line else pins["reader"]
    return Todo(shard, covered_of(line["covered"]), wanted_of(line), reader)


def covered_of(told: str | list[list[int]]) -> IdRanges:
    """What to leave out of a shard; of an attempt made by an earlier version, plain runs."""
    if isinstance(told, str):
        return IdRanges.of_json(told)
    return IdRanges.of([(IdRuns.of_plain(told),)])


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


def read_rows(source: Source, storage: FsspecStorage, todo: Todo) -> Iterator[Read]:
    """A shard's rows; errors say where they happened."""
    shard = todo.shard
    row = shard.first_row
    try:
        for read in up_to(shard.rows, source.read(storage, shard, todo.reader)):
            yield read
            row += 1 if isinstance(read, BadRow) else len(read)
    except FileNotFoundError as error:
        gone = InputChanged("the file was there when the run was planned and is gone")
        raise gone.locate("read", shard.path) from error
    except BatchInferenceError as error:
        error.locate("read", shard.path, row)
        raise
    except PermissionError as error:
        way_out = "allow the user who runs the job to read it"
        if "exclude" in type(source).model_fields:
            way_out += ", or leave it out with source.exclude"
        raise StageFailed(f"{describe(error)}; {way_out}").locate(
            "read", shard.path, row
        ) from error
    except Exception as error:
        raise stage_error(error).locate("read", shard.path, row) from error
