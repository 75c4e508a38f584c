"""Looks at the rows that a run would begin with, before anything is started for it."""

import pyarrow.compute as pc

from tasks.kinds.sources.source import BadRow
from tasks.kinds.sources.table_reading.carried import GONE
from tasks.plan import PlannedRun
from tasks.protocol.plan_file import Shard, shards_of
from tasks.protocol.ranges import IdRanges
from tasks.publishing.rejections import words_in
from tasks.ray_job.opening import Todo, read_rows
from tasks.ray_job.stage_error import message_of

COLUMNS = 20
"""That are named, at most."""


def first_rows(planned: PlannedRun) -> str:
    """What the first input to do holds, as far as its first rows tell; empty where none is to do.

    Args:
        planned: the run. The source is reached from here, as it was for the plan.

    Raises:
        InputChanged: the input was rewritten or is gone.
        StageFailed: its storage failed.
    """
    shard = first_shard(planned)
    if shard is None:
        return ""
    reader = planned.plan.pins["reader"]
    source = planned.spec.source.as_planned(reader)
    storage, _ = source.opened(source.paths[0])
    read = next(read_rows(source, storage, Todo(shard, IdRanges.of(()), None, reader)), None)
    if read is None:
        return f"the first, {shard.path}, has no rows"
    if isinstance(read, BadRow):
        what = f"{type(read.error).__name__}: {message_of(read.error).rstrip('.')}"
        place = f"the first, {shard.path}, row {shard.first_row}"
        return f"{place}, cannot be read and would be set aside: {what}; `preview` shows more rows"
    names = ", ".join(read.column_names[:COLUMNS])
    more = len(read.column_names) - COLUMNS
    told = f"columns {names}" + (f" and {more} more" if more > 0 else "")
    return ". ".join(filter(None, [told, words_in(planned)]))


def first_shard(planned: PlannedRun) -> Shard | None:
    """The first shard that has rows to read; inputs that are gone have none."""
    shards = planned.plan.shards
    there = shards.filter(pc.not_equal(shards["identity"], GONE))
    return next(iter(shards_of(there.slice(0, 1))), None)
