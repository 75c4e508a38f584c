"""Cuts big Parquet files at their row groups, for several workers."""

from itertools import accumulate

import pyarrow.parquet as pq

from tasks.protocol.object_stat import Stat
from tasks.protocol.plan_file import Shard


def cut_at_groups(stat: Stat, metadata: pq.FileMetaData, most_bytes: float) -> list[Shard]:
    """Shards of whole row groups, whose lengths are known; their numbers are set later.

    Args:
        stat: of the file.
        metadata: its footer's.
        most_bytes: of a shard with several groups, as they are in memory.
    """
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    ends = [0, *accumulate(group.total_byte_size for group in groups)]
    shards, start, first = [], 0, 0
    for stop in range(1, len(groups) + 1):
        if stop == len(groups) or ends[stop + 1] - ends[start] > most_bytes:
            rows = sum(group.num_rows for group in groups[start:stop])
            share = round(stat.size * (ends[stop] - ends[start]) / max(1, ends[-1]))
            shards.append(Shard(0, stat.path, stat.identity, share, start, stop, first, rows))
            start, first = stop, first + rows
    return shards
