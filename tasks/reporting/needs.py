"""Seconds that a stage would need alone, with other workers than it had."""

import math
from dataclasses import replace

from tasks.ray_job.batch_sizes import BATCHES_IN_HAND
from tasks.ray_job.writing import most_unrecorded
from tasks.reporting.knobs import knobs_of
from tasks.reporting.spare_capacity import free_cores, holds_gpus, workers_that_fit
from tasks.reporting.timings import StageTiming, Timings
from tasks.spec import BatchInferenceSpec

MOST_AT_ONCE = 4.0
"""Nobody knows what becomes of a run with more than so many times the workers it had."""
UNRECORDED = "the limit on batches without a record"


def workers_at_once(stage: str, spec: BatchInferenceSpec, timing: StageTiming) -> int:
    """Workers that a stage had where it had most; on average they are fewer.

    Of replicas those that are there from the start: Ray adds the others slowly, and they can be
    asked for sooner.
    """
    most = spec.resources.min_replicas if stage == "infer" else timing.most
    return max(round(timing.workers), most)


def need_of(stage: str, workers: int, spec: BatchInferenceSpec, timings: Timings) -> float:
    """Seconds with so many workers, of which as many are missing on average as were.

    Args:
        stage: theirs.
        workers: at once.
        spec: what was run.
        timings: of the steady time.
    """
    timing = timings.stages[stage]
    there = min(1.0, timing.workers / workers_at_once(stage, spec, timing))
    return timing.need(workers * there)


def need_of_late(replicas: int, spec: BatchInferenceSpec, timings: Timings) -> float:
    """Seconds with so many replicas, of which those that are not asked for come one by one.

    Args:
        replicas: at last.
        spec: what was run.
        timings: of the steady time.
    """
    added = replicas - spec.resources.min_replicas
    missing = timings.replica_seconds * added * (added + 1) / 2
    infer = timings.stages["infer"]
    late = replace(infer, busy=infer.busy + missing)
    stages = {**timings.stages, "infer": late}
    return need_of("infer", replicas, spec, replace(timings, stages=stages))


def best_need(spec: BatchInferenceSpec, stage: str, timings: Timings) -> float:
    """Seconds that a stage would need alone, with the workers that it may have."""
    timing, knobs = timings.stages[stage], knobs_of(spec, stage)
    if stage == "infer" and holds_gpus(spec, timings):
        return timing.need()  # another needs a GPU, and nobody tells whether one is free
    most = timing.workers * MOST_AT_ONCE
    if knobs.num_cpus:
        most = min(most, timing.workers + free_cores(spec, timings) / knobs.num_cpus)
    at_once = min(workers_that_fit(spec, stage, timings), knobs.max_workers or math.inf)
    if stage == "read" and timings.shares is not None:
        at_once = min(at_once, timings.shares)
    there = timing.workers / max(timing.workers, timing.most)  # of as many as there were at once
    return timing.need(max(timing.workers, min(most, at_once * there)))


def needed_with_its_way(spec: BatchInferenceSpec, stage: str, timings: Timings) -> float:
    """Seconds that replicas need where batches take longer to reach them than to be predicted.

    A replica works on one while another is on its way: only of the quickest batches the way counts.
    In the measure of the stage that bounds the run, whose own way is not in its busy seconds.
    """
    infer = timings.stages["infer"]
    more = best_need(spec, "infer", timings) / infer.need() if infer.busy else 1.0
    each = infer.occupied / infer.workers / BATCHES_IN_HAND
    return each * more * timings.share(stage)


def unrecorded_need(spec: BatchInferenceSpec, timings: Timings) -> float:
    """Seconds needed where only so many batches may be between the model and their records."""
    if spec.sink.rows_per_file is not None:
        return 0.0  # as many more may be as a file takes
    infer, write = timings.stages["infer"], timings.stages["write"]
    at_once = most_unrecorded(infer.busy / max(1, timings.batches)) * infer.workers
    return (infer.busy + write.busy) / at_once
