"""The one setting that gives a stage more to work with, and what comes of it."""

import math
from dataclasses import dataclass

from tasks.counted import counted
from tasks.kinds.clusters import LocalCluster
from tasks.ray_job.counts import STAGES
from tasks.ray_job.own_machine import is_own_machine, most_readers, most_writers, with_cores
from tasks.ray_job.writing import most_unrecorded
from tasks.reporting.timings import StageTiming, Timings
from tasks.reporting.workers import gpus_here, workers_at_hand
from tasks.spec import BatchInferenceSpec
from tasks.whole import whole

MOST_AT_ONCE = 4.0
"""Nobody knows what becomes of a run with more than so many times the workers it had."""
WAITS_BELOW = 0.5
"""A stage that computes for less than this share of its busy time can do with less of a core."""
DEVICE_IS_BUSY = 0.85
UNRECORDED = "the limit on batches without a record"
RAY_STARTS_SECONDS = 12.0
WORTH_IT = 1.15


@dataclass(frozen=True)
class Advice:
    """What to change; nothing where no setting helps."""

    reason: str
    setting: str | None = None
    gain: float | None = None


@dataclass(frozen=True)
class Knobs:
    """A stage's settings."""

    most: str
    """The field that bounds its workers."""
    max_workers: int | None
    cpus: str
    """The field that says how many cores a worker holds."""
    num_cpus: float
    is_asked_for: bool = True
    """Whether somebody has set the bound; else it goes once `cpus` is set."""


def knobs_of(spec: BatchInferenceSpec, stage: str) -> Knobs:
    """The settings of a stage."""
    resources = spec.resources
    if stage == "infer":
        # On a machine of its own a job has as many as there is room for.
        is_bounded = resources.max_replicas or not is_own_machine(spec)
        most = resources.most_replicas() if is_bounded else None
        return Knobs("resources.max_replicas", most, "resources.num_cpus", resources.cores)
    options, name = getattr(spec.stages, stage), f"stages.{stage}"
    usual = {"read": most_readers, "write": most_writers}
    workers = usual[stage](spec) if stage in usual else options.max_workers
    is_asked_for = stage != "read" or options.max_workers is not None
    fields = f"{name}.max_workers", f"{name}.num_cpus"
    return Knobs(fields[0], workers, fields[1], options.num_cpus, is_asked_for)


def advise(spec: BatchInferenceSpec, stage: str, timings: Timings) -> Advice:
    """What to change where one stage bounds a run on Ray.

    As many workers as it takes until another stage bounds the run.
    """
    timing = timings.stages[stage]
    if stage == "infer" and timing.device:
        return advise_device(spec, timings)
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
    setting, workers = make_room(stage, wanted, spec, timings)
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


def make_room(
    stage: str, wanted: int, spec: BatchInferenceSpec, timings: Timings
) -> tuple[str | None, int]:
    """The setting that lets a stage have more workers, and how many it then has."""
    timing, knobs, free = timings.stages[stage], knobs_of(spec, stage), free_cores(spec, timings)
    now = workers_at_once(stage, spec, timing)
    room = whole(timing.workers + free / knobs.num_cpus) if knobs.num_cpus else wanted
    most = wanted
    if knobs.max_workers is not None and knobs.is_asked_for:
        most = min(wanted, knobs.max_workers)
    if now < min(wanted, room):
        if now == knobs.max_workers:
            return f"{knobs.most}={min(wanted, room)}", min(wanted, room)
        if stage == "infer" and now < min(most, room):  # Ray adds replicas one by one, slowly
            return f"resources.min_replicas={min(most, room)}", min(most, room)
    waits = timing.computing < WAITS_BELOW * timing.busy
    if not waits or not knobs.num_cpus or most <= now or room >= most:
        return None, now
    share = math.floor((timing.workers * knobs.num_cpus + free) / most * 100) / 100
    return (f"{knobs.cpus}={share:g}", most) if share else (None, now)


def without_room(stage: str, spec: BatchInferenceSpec, timings: Timings) -> str:
    """Why a stage cannot have more workers."""
    timing, each = timings.stages[stage], knobs_of(spec, stage).num_cpus
    fewer = max(0.0, workers_at_once(stage, spec, timing) - timing.workers)
    free = max(0.0, free_cores(spec, timings) - fewer * each)
    if free >= each:
        return f"Ray has started no more of them, though {free:.2g} cores were free"
    return f"none of {counted(timings.cores, 'core')} is free: more nodes"


def best_need(spec: BatchInferenceSpec, stage: str, timings: Timings) -> float:
    """Seconds that a stage would need alone, with the workers that it may have."""
    timing, knobs = timings.stages[stage], knobs_of(spec, stage)
    most = timing.workers * MOST_AT_ONCE
    if knobs.num_cpus:
        most = min(most, timing.workers + free_cores(spec, timings) / knobs.num_cpus)
    if knobs.max_workers is not None:
        most = min(most, knobs.max_workers)
    if timing.device:  # another replica needs a GPU, and nobody tells whether one is free
        most = timing.workers
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


def free_cores(spec: BatchInferenceSpec, timings: Timings) -> float:
    """Cores of the cluster that no stage holds, on average."""
    held = sum(timings.stages[stage].holding * knobs_of(spec, stage).num_cpus for stage in STAGES)
    return max(0.0, timings.cores - held)


def advise_device(spec: BatchInferenceSpec, timings: Timings) -> Advice:
    """What to change where the replicas bound a run, and have GPUs."""
    infer = timings.stages["infer"]
    asked = 1.0 if spec.resources.num_gpus == "auto" else float(spec.resources.num_gpus)
    used = gpu_share(asked, timings)
    if used >= DEVICE_IS_BUSY:
        return Advice(f"nothing: its GPUs are busy {used * 100:.0f} %, only more of them help")
    reason = f"its GPUs are busy only {used * 100:.0f} %"
    if spec.model.kind == "vllm":
        engines = "a second engine would ask for most of the GPU's memory again"
        return Advice(f"{reason}: nothing, {engines}")
    most_replicas = spec.resources.most_replicas()
    if asked > 1 or most_replicas < 2 * infer.workers:
        return Advice(f"{reason}: nothing, replicas that share one would be no more than there are")
    best = max(best_need(spec, each, timings) for each in STAGES if each != "infer")
    most = infer.need() / best if best else 2.0
    sharing = "two" if asked > 0.5 else "more"
    return Advice(
        f"{reason}: let {sharing} replicas share one",
        f"resources.num_gpus={asked / 2:g}",
        min(2.0, 1 / used, most),
    )


def gpu_share(num_gpus: float, timings: Timings) -> float:
    """Share of the replicas' time in which their GPUs were busy.

    Each that shares one counts what others do to it too, also while it has no work itself.

    Args:
        num_gpus: GPUs of one replica.
        timings: of the steady time.
    """
    infer = timings.stages["infer"]
    if num_gpus < 1:
        return timings.device_share
    return min(1.0, infer.device / infer.busy) if infer.busy else 0.0


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
