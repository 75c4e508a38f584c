"""Reads a whole file through a source, as a run does."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import BYTES_PER_READ, ROWS_PER_READ, BadRow, Source

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: bytes(pa.compress(data, codec="zstd", asbytes=True)),
}


def read_all(source: Source, pins: dict[str, Any] | None = None) -> list[Any]:
    """Rows as dictionaries and bad rows as they are, in order, over all inputs."""
    storage, stats = list_inputs(source)
    if pins is None:
        pins = json.loads(json.dumps(source.pin(storage, stats)))
    rows: list[Any] = []
    for stat in stats:
        for shard in source.split(storage, stat):
            for read in source.read(storage, shard, pins):
                if isinstance(read, BadRow):
                    assert len(read.raw) <= 500
                    rows.append(read)
                else:
                    assert source.schema_of_rows(pins) in (None, read.schema)
                    assert len(read) > 0
                    assert len(read) <= ROWS_PER_READ or read.nbytes <= BYTES_PER_READ
                    read.validate(full=True)
                    rows += read.to_pylist()
    return rows


def write(folder: Path, name: str, content: bytes) -> str:
    """A file and its path."""
    (folder / name).write_bytes(content)
    return str(folder / name)
