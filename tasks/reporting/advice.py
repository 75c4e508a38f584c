"""The one setting that gives a stage more to work with, and what comes of it."""

import math
from dataclasses import dataclass
from functools import partial

from tasks.counted import counted
from tasks.kinds.clusters import LocalCluster
from tasks.ray_job.counts import STAGES
from tasks.ray_job.own_machine import replicas_have_the_cores, with_cores
from tasks.ray_job.room import cores_beside
from tasks.ray_job.writing import most_unrecorded
from tasks.reporting.knobs import knobs_of
from tasks.reporting.room_there import (
    free_cores,
    holds_gpus,
    is_accepted,
    with_resources,
    workers_that_fit,
)
from tasks.reporting.timings import StageTiming, Timings
from tasks.reporting.workers import gpus_here, workers_at_hand
from tasks.spec import BatchInferenceSpec
from tasks.whole import whole

MOST_AT_ONCE = 4.0
"""Nobody knows what becomes of a run with more than so many times the workers it had."""
WAITS_BELOW = 0.5
"""A stage that computes for less than this share of its busy time can do with less of a core."""
UNRECORDED = "the limit on batches without a record"
RAY_STARTS_SECONDS = 12.0
WORTH_IT = 1.15


@dataclass(frozen=True)
class Advice:
    """What to change; nothing where no setting helps."""

    reason: str
    setting: str | None = None
    gain: float | None = None


def advise(spec: BatchInferenceSpec, stage: str, timings: Timings) -> Advice:
    """What to change where one stage bounds a run on Ray.

    As many workers as it takes until another stage bounds the run.
    """
    timing = timings.stages[stage]
    if stage == "read" and timings.shares is not None and timing.most >= timings.shares:
        return Advice(f"the input comes in {counted(timings.shares, 'part')}: split it into more")
    best = {each: best_need(spec, each, timings) for each in STAGES if each != stage}
    if stage != "infer":
        best["infer"] = max(best["infer"], needed_with_its_way(spec, stage, timings))
    if stage == "write":
        best[UNRECORDED] = unrecorded_need(spec, timings)
    after = max(best, key=lambda each: best[each])
    times = min(MOST_AT_ONCE, timing.need() / best[after] if best[after] else MOST_AT_ONCE)
    if times < WORTH_IT:
        return Advice(f"{after} is nearly as busy: only more cores or nodes help both")
    more = workers_at_once(stage, spec, timing) + 1
    wanted = max(more, math.ceil(round(timing.workers * times, 1)))
    if stage == "read" and timings.shares is not None:
        wanted = min(wanted, timings.shares)
    make_room = more_replicas if stage == "infer" else partial(more_workers, stage)
    setting, workers = make_room(wanted, spec, timings)
    if setting is None:
        return Advice(without_room(stage, spec, timings))
    gain = timing.need() / max(timing.need(workers), best[after])
    bounds = after if best[after] >= timing.need(workers) else stage
    still = "still bounds" if bounds == stage else "bounds"
    return Advice(f"with {counted(workers, 'worker')} {bounds} {still} it", setting, gain)


def workers_at_once(stage: str, spec: BatchInferenceSpec, timing: StageTiming) -> int:
    """Workers that a stage had where it had most; on average they are fewer.

    Of replicas those that are there from the start: Ray adds the others slowly, and they can be
    asked for sooner.
    """
    most = spec.resources.min_replicas if stage == "infer" else timing.most
    return max(round(timing.workers), most)


def more_replicas(
    wanted: int, spec: BatchInferenceSpec, timings: Timings
) -> tuple[str | None, int]:
    """The setting that brings more replicas, as many as are let in, and how many there then are."""
    timing, bound = timings.stages["infer"], spec.resources.max_replicas
    now = workers_at_once("infer", spec, timing)
    num_cpus, free = spec.resources.cores, free_cores(spec, timings)
    room = whole(timing.workers + free / num_cpus)
    if now < min(wanted, room):
        field, most = "min_replicas", min(wanted, bound or wanted)  # Ray adds others slowly
        if bound is not None and now >= bound:
            field, most = "max_replicas", wanted
        elif replicas_have_the_cores(spec, num_gpus=0.0):
            return None, now  # more were added where there was memory for them, and it paid
        sizes = range(min(most, room), now, -1)
        fits = (n for n in sizes if is_accepted(with_resources(spec, min_replicas=n), timings))
        workers = next(fits, now)
        return (f"resources.{field}={workers}", workers) if workers > now else (None, now)
    most = min(wanted, bound or wanted)
    if not waits(timing) or most <= now or room >= most:
        return None, now
    left = min(timing.workers * num_cpus + free, timings.cores - cores_beside(spec))
    share = math.floor(left / most * 100) / 100
    smaller = with_resources(spec, num_cpus=share, min_replicas=most)
    if share <= 0 or not is_accepted(smaller, timings):
        return None, now
    return f"resources.num_cpus={share:g}", most


def more_workers(
    stage: str, wanted: int, spec: BatchInferenceSpec, timings: Timings
) -> tuple[str | None, int]:
    """The setting that lets a stage have more workers, and how many it then has."""
    timing, knobs, free = timings.stages[stage], knobs_of(spec, stage), free_cores(spec, timings)
    now, room, most = workers_at_once(stage, spec, timing), wanted, wanted
    if knobs.num_cpus:
        fit = workers_that_fit(spec, stage, timings)
        room = whole(min(timing.workers + free / knobs.num_cpus, fit))
    if knobs.max_workers is not None and knobs.is_asked_for:
        most = min(wanted, knobs.max_workers)
    if now < min(wanted, room) and now == knobs.max_workers:
        return f"{knobs.most}={min(wanted, room)}", min(wanted, room)
    if not waits(timing) or not knobs.num_cpus or most <= now or room >= most:
        return None, now
    share = math.floor((timing.workers * knobs.num_cpus + free) / most * 100) / 100
    return (f"{knobs.cpus}={share:g}", most) if share else (None, now)


def waits(timing: StageTiming) -> bool:
    """Whether a worker could do with less of a core."""
    return timing.computing < WAITS_BELOW * timing.busy


def without_room(stage: str, spec: BatchInferenceSpec, timings: Timings) -> str:
    """Why a stage cannot have more workers."""
    timing, each = timings.stages[stage], knobs_of(spec, stage).num_cpus
    now = workers_at_once(stage, spec, timing)
    free = max(0.0, free_cores(spec, timings) - max(0.0, now - timing.workers) * each)
    if free < each:
        return f"none of {counted(timings.cores, 'core')} is free: more nodes"
    beside = f"with {counted(round(free, 1), 'core')} free"
    if workers_that_fit(spec, stage, timings) <= now:
        return f"no node has room for another, {beside}: more nodes, or larger ones"
    if stage != "infer":
        return f"Ray has started no more of them, {beside}"
    if replicas_have_the_cores(spec, num_gpus=0.0):
        return f"no more were started, {beside}: there was no memory for them, or it did not pay"
    return f"beside other stages the nodes that its job found have no room for more, {beside}"


def best_need(spec: BatchInferenceSpec, stage: str, timings: Timings) -> float:
    """Seconds that a stage would need alone, with the workers that it may have."""
    timing, knobs = timings.stages[stage], knobs_of(spec, stage)
    most = timing.workers * MOST_AT_ONCE
    if knobs.num_cpus:
        most = min(most, timing.workers + free_cores(spec, timings) / knobs.num_cpus)
    if knobs.max_workers is not None:
        most = min(most, knobs.max_workers)
    most = min(most, workers_that_fit(spec, stage, timings))
    if stage == "infer" and holds_gpus(spec, timings):
        most = timing.workers  # another needs a GPU, and nobody tells whether one is free
    if stage == "read" and timings.shares is not None:
        most = min(most, timings.shares)
    return timing.need(max(timing.workers, most))


def needed_with_its_way(spec: BatchInferenceSpec, stage: str, timings: Timings) -> float:
    """Seconds that replicas need with the batches' way to them and back, which is theirs too.

    In the measure of the stage that bounds the run, whose own way is not in its busy seconds.
    """
    infer = timings.stages["infer"]
    more = best_need(spec, "infer", timings) / infer.need() if infer.busy else 1.0
    return infer.occupied / infer.workers * more * timings.share(stage)


def unrecorded_need(spec: BatchInferenceSpec, timings: Timings) -> float:
    """Seconds needed where only so many batches may be between the model and their records."""
    if spec.sink.rows_per_file is not None:
        return 0.0  # as many more may be as a file takes
    infer, write = timings.stages["infer"], timings.stages["write"]
    at_once = most_unrecorded(infer.busy / max(1, timings.batches)) * infer.workers
    return (infer.busy + write.busy) / at_once


def advise_inline(spec: BatchInferenceSpec, stage: str, timings: Timings) -> Advice:
    """What to change where one process does everything: several of them, if that pays."""
    there = spec.model_copy(update={"cluster": LocalCluster()})
    there = with_cores(there, gpus_here(there))
    workers = workers_at_hand(there, timings.shares or 1)
    needs = [timings.stages[each].need(workers[each]) for each in STAGES]
    busy = timings.cores_in_use(spec.resources.cores) * timings.seconds
    gain = timings.seconds / (max(*needs, busy) + RAY_STARTS_SECONDS)
    if gain < WORTH_IT:
        return Advice("nothing: to start Ray would take longer than its workers save")
    reason = f"Ray has room for {workers[stage]} worker(s) of it on this machine"
    return Advice(reason, "cluster.kind=local", gain)
