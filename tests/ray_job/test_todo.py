"""What a read task fetches of the list of what is left to do."""

import hashlib
import io
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from tasks.protocol.acceptance import Gap
from tasks.protocol.parquet_parts import parquet_bytes, rows_per_group
from tasks.protocol.plan_file import Shard, first_plan, shard_table
from tasks.protocol.ranges import IdRanges
from tasks.protocol.storage import FsspecStorage
from tasks.ray_job.opening import covered_of, todo_lines

SHARDS, IN_A_SHARE = 100_000, 25


class FarFile(AbstractBufferedFile):
    """A file behind a network, which s3fs would read ahead by 50 MiB."""

    DEFAULT_BLOCK_SIZE = 50 * 2**20

    def _fetch_range(self, start: int, end: int) -> bytes:
        self.fs.fetched += end - start
        return bytes(self.fs.data[start:end])


class FarStore(AbstractFileSystem):
    """A store with one object, that counts the bytes which leave it."""

    protocol = "far"
    cachable = False

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data, self.fetched = data, 0

    def info(self, path: str, **more: Any) -> dict[str, Any]:
        return {"name": path, "size": len(self.data), "type": "file"}

    def _open(self, path: str, mode: str = "rb", **more: Any) -> FarFile:
        return FarFile(self, path, mode, **{**more, "block_size": FarFile.DEFAULT_BLOCK_SIZE})


@pytest.fixture(scope="module")
def todo() -> pa.Table:
    """Many shards, and what is settled of them."""
    etags = [hashlib.md5(str(at).encode()).hexdigest() for at in range(SHARDS)]
    shards = [Shard(at, f"bucket/in/{at:08d}.jpg", etag, at) for at, etag in enumerate(etags)]
    covered = pa.array([[]] * SHARDS, pa.list_(pa.list_(pa.int64())))
    return shard_table(shards).append_column("covered", covered)


@pytest.mark.parametrize("start", [0, 50_000, 1_540, SHARDS - IN_A_SHARE])
def test_a_share_fetches_little_of_the_whole(todo: pa.Table, start: int) -> None:
    store = FarStore(parquet_bytes(todo))
    job: Any = SimpleNamespace(storage=FsspecStorage(store), todo_file="todo.parquet")
    found = pa.concat_tables(todo_lines(job, start, start + IN_A_SHARE))
    assert found["number"].to_pylist() == [*range(start, start + IN_A_SHARE)]
    assert store.fetched < 0.06 * len(store.data)


def test_what_is_left_of_millions_of_rows_set_aside_here_and_there_takes_little() -> None:
    """A third of the rows of two files of a million; of the first, a few are settled as a block."""
    is_aside = np.random.default_rng(0).random(2_000_000) < 1 / 3
    is_aside[:500] = False
    at = np.flatnonzero(~is_aside)
    ids = at // 1_000_000 << 32 | at % 1_000_000
    plan = first_plan(shard_table([Shard(n, f"in/{n}", "e", 9, rows=10**6) for n in (0, 1)]), {})
    covered = IdRanges.joined(ids, ids + 1)
    begun = time.thread_time()
    table = Gap(np.arange(2), covered, int(is_aside.sum()), len(at)).todo(plan)
    data = parquet_bytes(table)
    assert len(data) < 500_000, "it took 1.1 MB"
    told = [covered_of(each) for each in pq.read_table(io.BytesIO(data))["covered"].to_pylist()]
    assert time.thread_time() - begun < 0.7, "it took 1.2 s"
    assert [*told[0].ids(), *told[1].ids()] == ids.tolist()


def test_what_an_earlier_version_has_left_to_do_is_read() -> None:
    ids = covered_of([[3, 4, 1], [9, 1, 1], [11, 2, 1]]).ids()
    assert ids.tolist() == [3, 4, 5, 6, 9, 11, 12]
    assert not len(covered_of([]))


def test_a_footer_stays_small_beside_what_it_is_of() -> None:
    assert [rows_per_group(rows) for rows in (0, 10_000, 10**6, 10**7)] == [1000, 1000, 4898, 15491]
