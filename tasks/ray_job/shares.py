"""How the shards are shared out among the read tasks."""

import math
from collections.abc import Iterator

from tasks.ray_job.job import Job
from tasks.ray_job.own_machine import is_own_machine, lies_near

MAX_READ_TASKS = 10_000
BYTES_PER_READ_TASK = 256 << 20
READ_TASKS_PER_CPU = 4
BATCHES_PER_SHARE = 4
"""With fewer, the last one of each would be much of them all."""


def cut_shares(job: Job, num_cpus: int, rows: int | None = None) -> Iterator[tuple[int, int]]:
    """Shares of the shards for the read tasks: enough to keep every core busy, at most 10,000.

    Fewer where this machine's disk holds few rows: no batch has rows of two shares, so that many
    shares would mean small batches. Elsewhere, and of media, many readers wait side by side.

    Args:
        job: what to do.
        num_cpus: cores of the cluster.
        rows: left to do, as far as that can be known.
    """
    by_size = math.ceil(job.todo_bytes / BYTES_PER_READ_TASK)
    by_cores = num_cpus * READ_TASKS_PER_CPU
    spec = job.spec
    is_quick = is_own_machine(spec) and lies_near(spec.source) and not spec.source.has_media
    if rows is not None and is_quick:
        by_cores = min(by_cores, rows // (BATCHES_PER_SHARE * spec.rows_per_batch))
    wanted = max(by_size, by_cores)
    count = max(1, min(wanted, job.num_shards, MAX_READ_TASKS))
    for number in range(count):
        yield number * job.num_shards // count, (number + 1) * job.num_shards // count
