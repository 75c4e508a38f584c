"""How many rows inputs are likely to have, where only reading all of them would tell."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from tasks.kinds.sources.source import BadRow, Source
from tasks.protocol.object_stat import Stat
from tasks.protocol.plan_file import Shard, shards_of
from tasks.protocol.storage import FsspecStorage

BYTES_READ, SECONDS_READ = 8 << 20, 0.5
"""Of an input at most: text comes in blocks of a MiB, of which some rows are not out yet."""
INPUTS_READ, INPUTS_ASKED = 3, 32
"""At most: of those that have to be read, and of those that tell."""


class WatchedStorage(FsspecStorage):
    """A storage that knows how far the file is read that was opened last."""

    file: IO[bytes] | None = None

    def open(self, path: str) -> IO[bytes]:
        """Open for streaming reads."""
        self.file = super().open(path)
        return self.file

    @property
    def position(self) -> int:
        """Bytes of it that were read, as it lies there."""
        return self.file.tell() if self.file and not self.file.closed else 0


def likely_rows(
    source: Source, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]
) -> int | None:
    """Rows of a shard: as many as it says itself, else by those at its beginning.

    Args:
        source: reads it.
        storage: where it lies.
        shard: a file, or a part of one whose rows are known.
        pins: as `Source.pin` gave them.

    Returns:
        None where to read its beginning would take long.

    Raises:
        OSError: the storage failed.
    """
    if shard.rows is not None:
        return shard.rows
    told = source.count_rows(storage, Stat(shard.path, shard.size, shard.identity))
    if told is not None or not source.reads_on:
        return told
    watched, rows, until = WatchedStorage(storage.filesystem), 0, time.monotonic() + SECONDS_READ
    for read in source.read(watched, shard, pins):
        rows += 1 if isinstance(read, BadRow) else len(read)
        at_length = watched.position >= BYTES_READ or time.monotonic() > until
        if at_length and watched.position:
            return max(rows, round(rows * shard.size / watched.position))
    return rows


def reckon_rows(
    source: Source, storage: FsspecStorage, shards: pa.Table, pins: dict[str, Any]
) -> int | None:
    """Rows of all shards, from a look at some; None where these do not tell, or are empty.

    Raises:
        OSError: the storage failed.
    """
    some = shards_of(to_look_at(source, shards))
    with ThreadPoolExecutor(len(some) or 1) as pool:
        rows = list(pool.map(partial(likely_rows, source, storage, pins=pins), some))
    told, size = [each for each in rows if each is not None], sum(shard.size for shard in some)
    if len(told) < len(some) or not size:
        return None
    return round(sum(told) * pc.sum(shards["size"]).as_py() / size)


def to_look_at(source: Source, shards: pa.Table) -> pa.Table:
    """The shards that tell most of all: the largest, since small ones may have no rows at all."""
    count = INPUTS_READ if source.reads_on else INPUTS_ASKED
    return shards.take(pc.sort_indices(shards, [("size", "descending")])[:count])
