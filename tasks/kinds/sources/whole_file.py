"""A file that is one value of one row, such as an image."""

from tasks.kinds.sources.source import BadRow
from tasks.protocol.plan_file import Shard
from tasks.protocol.storage import FsspecStorage

LARGEST_FILE = 1 << 30
"""Bytes of a file that is one value; Arrow holds twice as many in a column, and not more."""


def whole_file(storage: FsspecStorage, shard: Shard) -> bytes | BadRow:
    """What a file holds that is one value of one row."""
    if shard.size > LARGEST_FILE:
        problem = f"the file has {shard.size:,} bytes; at most {LARGEST_FILE:,} are read as a row"
        return BadRow(ValueError(problem))
    return storage.read(shard.path)
