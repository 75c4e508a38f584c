"""Whether larger batches help, where the time goes by between stages with each of them."""

import math

from tasks.kinds.sources.source import BYTES_PER_READ
from tasks.ray_job.batch_sizes import BATCHES_PER_REPLICA
from tasks.reporting.advice import WORTH_IT, Advice
from tasks.reporting.timings import Timings
from tasks.spec import BatchInferenceSpec

MOST_TIMES_LARGER = 8
FULL = 0.5
"""Of the rows that batches may have: such as have fewer end for another reason."""


def advise_batches(
    spec: BatchInferenceSpec, busiest: str, timings: Timings, *, memory_ran_out: bool
) -> Advice:
    """Make batches as much larger as leaves enough of them.

    Args:
        spec: what was run.
        busiest: the stage that was busy for longest.
        timings: of the steady time.
        memory_ran_out: whether batches are halved.
    """
    if memory_ran_out:
        return Advice("nothing: memory ran out, and larger ones need more of it")
    if timings.reads_kept:
        return Advice("nothing: materialized rows stay in their batches")
    most = timings.rows_per_batch or spec.rows_per_batch
    if end_early(most, spec, timings):
        ends = f"they end at {BYTES_PER_READ >> 20} MiB or with a part of the input"
        return Advice(f"nothing: {ends}, before they have the rows of stages.read.rows_per_batch")
    times = times_larger(math.ceil(timings.rows / most), timings)
    need = timings.stages[busiest].need()
    gain = timings.seconds / (need + (timings.seconds - need) / max(1, times))
    if gain < WORTH_IT:
        return Advice("nothing: larger ones would be too few")
    return Advice("make them larger", f"stages.read.rows_per_batch={most * times}", gain)


def end_early(most: int, spec: BatchInferenceSpec, timings: Timings) -> bool:
    """Whether batches have far fewer rows than they may: to allow more changes nothing.

    Args:
        most: rows that they may have.
        spec: what was run.
        timings: of the steady time.
    """
    per_record = math.ceil((spec.sink.rows_per_file or most) / most)
    return timings.rows < FULL * most * per_record * timings.batches


def times_larger(batches: int, timings: Timings) -> int:
    """How much larger batches can be: each replica needs several, and none goes beyond a share."""
    replicas = timings.stages["infer"].most
    shares = timings.shares or 1
    return min(MOST_TIMES_LARGER, batches // (BATCHES_PER_REPLICA * replicas), batches // shares)
