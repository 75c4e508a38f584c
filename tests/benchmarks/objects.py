"""Small files of S3 over HTTP: how much of a core each takes of whoever reads them.

The server answers from memory, in a process of its own, so that CPU time here is the client's.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.fs as pf
import pytest

from tasks.kinds.sources import ImagesSource
from tasks.protocol.plan_file import Shard
from tasks.protocol.ranges import IdRanges
from tasks.ray_job.opening import Todo, open_each
from tests.s3_server import CREDENTIALS

FILES, BYTES, ROUNDS, THREADS = 3_000, 100_000, 3, 16
BUCKET, ETAG = "batches", "0123456789abcdef"
SERVER = f"""
import asyncio
BODY = bytes({BYTES})
HEAD = (b"HTTP/1.1 200 OK\\r\\nContent-Length: {BYTES}\\r\\nETag: \\"{ETAG}\\"\\r\\n"
        b"Content-Type: image/jpeg\\r\\nLast-Modified: Sun, 29 Nov 2026 20:00:00 GMT\\r\\n\\r\\n")
class Answers(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.asked = transport, b""
    def data_received(self, data):
        self.asked += data
        while b"\\r\\n\\r\\n" in self.asked:
            request, _, self.asked = self.asked.partition(b"\\r\\n\\r\\n")
            self.transport.write(HEAD if request.startswith(b"HEAD") else HEAD + BODY)
async def serve():
    server = await asyncio.get_running_loop().create_server(Answers, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(serve())
"""
NONE = IdRanges(np.array([], np.int64), np.array([], np.int64))


def measure(folder: Path) -> list[str]:
    """Each way in turn, some times."""
    with pytest.MonkeyPatch.context() as environment, serving() as port:
        for name, value in CREDENTIALS.items():
            environment.setenv(name, value)
        ways = ways_to_read(f"127.0.0.1:{port}")
        for read in ways.values():
            read(THREADS)  # connects, imports
        spent: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, read in ways.items():
                spent[name].append(timed(read))
    lines = [
        f"{FILES:,} files of {BYTES:,} bytes, read whole by one process and found to be those that "
        f"were listed; medians of {ROUNDS} alternating rounds.",
        "",
        "| read by | CPU ms a file | files a second |",
        "| --- | --- | --- |",
    ]
    for name, each in spent.items():
        cpu, wall = (median(values) for values in zip(*each, strict=True))
        lines.append(f"| {name} | {cpu * 1e3:.2f} | {1 / wall:,.0f} |")
    return lines


def timed(read: Callable[[int], None]) -> tuple[float, float]:
    """CPU and wall seconds a file."""
    cpu, wall = time.process_time(), time.monotonic()
    read(FILES)
    return (time.process_time() - cpu) / FILES, (time.monotonic() - wall) / FILES


def ways_to_read(address: str) -> dict[str, Callable[[int], None]]:
    """What reads the first so many files, by its name."""
    options = {"endpoint_url": f"http://{address}"}
    source = ImagesSource(path=f"s3://{BUCKET}/in", storage_options=options)
    storage, folder = source.opened(source.paths[0])
    paths = [f"{folder}/{number:06}.jpg" for number in range(FILES)]
    arrow = pf.S3FileSystem(endpoint_override=address, scheme="http")

    def of_s3fs(path: str) -> None:
        assert len(storage.filesystem.cat_file(path)) == BYTES
        assert ETAG in storage.filesystem.info(path)["ETag"]

    def of_arrow(path: str) -> None:
        with arrow.open_input_stream(path) as stream:
            assert len(stream.read()) == BYTES

    def ours(count: int) -> None:
        shards = (Shard(at, path, ETAG, BYTES, rows=1) for at, path in enumerate(paths[:count]))
        todo = [Todo(shard, NONE, None, {}) for shard in shards]
        opened = open_each(source, storage, todo)
        read = [each for shard in opened for each in shard.reads if isinstance(each, pa.Table)]
        assert sum(map(len, read)) == count

    return {
        "the read stage": ours,
        "PyArrow's S3FileSystem, the content alone, as plain Ray Data does": in_threads(
            of_arrow, paths
        ),
        "s3fs, content and ETag": in_threads(of_s3fs, paths),
    }


def in_threads(read: Callable[[str], None], paths: list[str]) -> Callable[[int], None]:
    """What reads the first so many files with some threads."""

    def read_all(count: int) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(read, paths[:count]))

    return read_all


@contextmanager
def serving() -> Iterator[int]:
    """The server's port."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True, env=environment
    ) as server:
        assert server.stdout
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()
