"""Reads a run's output back, a few columns of a few files at a time."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from tasks.kinds.sinks import Sink
from tasks.kinds.sinks.sink import folder_values
from tasks.protocol.storage import Storage

READERS = 8
"""Files in memory at a time: storages answer late, and none must fill the memory."""


@dataclass(frozen=True)
class OutputFile:
    """A file of rows, staged or published."""

    path: str
    rows: int
    partition: str = ""
    """Hive folders; their columns are not in the file."""


@dataclass(frozen=True)
class OutputReader:
    """Reads some columns of an output, each file once."""

    storage: Storage
    sink: Sink
    schema: pa.Schema
    """Of the whole output, columns that became folders included."""
    names: list[str]

    def stream(self, files: Iterable[OutputFile]) -> Iterator[pa.Table]:
        """Rows file by file, in order; the next files are fetched meanwhile."""
        waiting: deque[Future[pa.Table]] = deque()
        with ThreadPoolExecutor(READERS) as pool:
            for file in files:
                waiting.append(pool.submit(self.read, file))
                if len(waiting) == READERS:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def read(self, file: OutputFile) -> pa.Table:
        """One file's rows."""
        folders = {f.name for f in self.schema if f.name in self.sink.partition_by}
        inside = [name for name in self.names if name not in folders]
        rows = pa.table({"": pa.nulls(file.rows)}).select([])
        if inside:
            kept = pa.schema([f for f in self.schema if f.name not in folders])
            rows = self.sink.select(self.storage.read(file.path), inside, kept)
        for name, text in folder_values(file.partition).items():
            if name in self.names:
                value = pa.scalar(text, pa.string()).cast(self.schema.field(name).type)
                rows = rows.append_column(name, pa.repeat(value, file.rows))
        return rows
