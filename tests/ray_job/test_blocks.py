"""Batches as Ray blocks: whole, and freed when they are gone."""

import gc

import numpy as np
import pyarrow as pa

from tasks.protocol.batch import ROW, RowBatch, ShardEnd
from tasks.ray_job.datasource import COLUMN, from_block, to_block

ROWS = 100_000


def batch() -> RowBatch:
    ids = np.arange(ROWS)
    return RowBatch(pa.table({ROW: ids, "x": ids * 2.0}), ends=(ShardEnd(0, ROWS),))


def test_a_batch_is_one_row_and_comes_back_whole() -> None:
    block = to_block(batch())
    assert len(block) == 1
    (back,) = from_block(block)
    assert back.rows.equals(batch().rows)
    assert back.ends == (ShardEnd(0, ROWS),)


def test_blocks_are_freed() -> None:
    to_block(batch())
    gc.collect()
    before = pa.total_allocated_bytes()
    for _ in range(20):
        from_block(to_block(batch()))
    gc.collect()
    assert pa.total_allocated_bytes() - before < batch().rows.nbytes


def test_a_batch_is_read_where_it_lies() -> None:
    """From blocks of several batches too, and from a part of one."""
    blocks = pa.concat_tables([to_block(batch()), to_block(batch())]).combine_chunks()
    (held,) = blocks[COLUMN].chunks
    bytes_held = held.buffers()[2]
    batches = from_block(blocks)
    assert [each.rows.equals(batch().rows) for each in batches] == [True, True]
    (last,) = from_block(blocks.slice(1))
    assert last.rows.equals(batch().rows)
    for each in (*batches, last):
        (column,) = each.rows["x"].chunks
        start = column.buffers()[1].address - bytes_held.address
        assert 0 <= start < bytes_held.size
    assert from_block(blocks.slice(2)) == []
