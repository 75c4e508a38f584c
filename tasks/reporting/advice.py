"""The one setting that gives a stage more to work with, and what comes of it."""

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from tasks.clusters.kuberay_capacity import most_replicas
from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.kinds.clusters import KubeRayCluster, LocalCluster
from tasks.ray_job.cluster_capacity import cores_beside, gpus_of_replica
from tasks.ray_job.counts import STAGES
from tasks.ray_job.own_machine import (
    preprocesses_in_replicas,
    replicas_have_the_cores,
    with_cores,
)
from tasks.reporting.knobs import knobs_of
from tasks.reporting.needs import (
    MOST_AT_ONCE,
    UNRECORDED,
    best_need,
    need_of,
    need_of_late,
    needed_with_its_way,
    unrecorded_need,
    workers_at_once,
)
from tasks.reporting.spare_capacity import free_cores, is_accepted, workers_that_fit
from tasks.reporting.timings import StageTiming, Timings
from tasks.reporting.workers import gpus_here, may_grow, workers_at_hand
from tasks.spec import BatchInferenceSpec
from tasks.whole import whole

WAITS_BELOW = 0.5
"""A stage that computes for less than this share of its busy time can do with less of a core."""
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
    now = workers_at_once(stage, spec, timing)
    wanted = max(now + 1, math.ceil(round(max(timing.workers, now) * times, 1)))
    if stage == "read" and timings.shares is not None:
        wanted = min(wanted, timings.shares)
    make_room = more_replicas if stage == "infer" else partial(more_workers, stage)
    more = make_room(wanted, spec, timings)
    if more is None:
        on_new_nodes = ask_for_nodes(spec, timings) if stage == "infer" else None
        return on_new_nodes or Advice(without_room(stage, spec, timings))
    gain = timing.need() / max(more.seconds, best[after])
    if gain < WORTH_IT:
        return Advice(f"nothing: {counted(more.workers, 'worker')} would hardly be faster")
    bounds = f"{after} limits" if best[after] >= more.seconds else f"{stage} still limits"
    return Advice(f"with {counted(more.workers, 'worker')} {bounds} it", more.setting, gain)


@dataclass(frozen=True)
class More:
    """What brings a stage more workers."""

    setting: str
    workers: int
    seconds: float
    """That the stage would then need alone."""


def more_replicas(wanted: int, spec: BatchInferenceSpec, timings: Timings) -> More | None:
    """The setting that brings more replicas, as many as are let in."""
    timing, bound = timings.stages["infer"], spec.resources.max_replicas
    now = workers_at_once("infer", spec, timing)
    num_cpus, free = spec.resources.cores, free_cores(spec, timings)
    room = whole(timing.workers + free / num_cpus)
    if now < min(wanted, room):
        is_bound = bound is not None and now >= bound
        if not is_bound and replicas_have_the_cores(spec, num_gpus=0.0):
            return None  # more were added where there was memory for them, and it paid
        field, need = ("max", need_of_late) if is_bound else ("min", partial(need_of, "infer"))
        most = min(room, wanted if is_bound else min(wanted, bound or wanted))
        sizes = [n for n in range(now + 1, most + 1) if is_let_in(n, spec, timings)]
        if not sizes:
            return None
        seconds, workers = min((need(n, spec, timings), n) for n in sizes)
        return More(f"resources.{field}_replicas={workers}", workers, seconds)
    most = min(wanted, bound or wanted)
    if not waits(timing) or most <= now or room >= most:
        return None
    left = min(timing.workers * num_cpus + free, timings.cores - cores_beside(spec))
    share = math.floor(left / most * 100) / 100
    if share <= 0 or not is_let_in(most, spec.with_part("resources", num_cpus=share), timings):
        return None
    return More(f"resources.num_cpus={share:g}", most, need_of_late(most, spec, timings))


def ask_for_nodes(spec: BatchInferenceSpec, timings: Timings) -> Advice | None:
    """More replicas, of a cluster that adds nodes for those that are asked for.

    None where it does not, or where their bound is not what holds them back. What nodes would come
    nobody knows, so that no gain is promised.
    """
    most, there = knobs_of(spec, "infer").max_workers, timings.stages["infer"].most
    if not may_grow(spec) or most is None or there < most:
        return None
    wanted = 2 * most
    each = gpus_of_replica(spec.resources, timings.nodes)
    if each and timings.max_gpus is not None:
        wanted = min(wanted, whole(timings.max_gpus / each))
    if isinstance(spec.cluster, KubeRayCluster):
        with suppress(InvalidSpec):  # a manifest that has changed since
            asking = spec.with_part("resources", num_gpus=each)
            wanted = min(wanted, most_replicas(asking, spec.cluster))
    if wanted <= most:
        return None
    reason = (
        f"all {counted(most, 'replica')} that resources.max_replicas allows are at work; the "
        "cluster can add nodes for more, up to its autoscaler's limit"
    )
    return Advice(reason, f"resources.max_replicas={wanted}")


def is_let_in(replicas: int, spec: BatchInferenceSpec, timings: Timings) -> bool:
    """Whether so many replicas would find room, all of them from the start."""
    return is_accepted(spec.with_part("resources", min_replicas=replicas), timings)


def more_workers(
    stage: str, wanted: int, spec: BatchInferenceSpec, timings: Timings
) -> More | None:
    """The setting that lets a stage have more workers."""
    timing, knobs, free = timings.stages[stage], knobs_of(spec, stage), free_cores(spec, timings)
    now, room, most = workers_at_once(stage, spec, timing), wanted, wanted
    if knobs.num_cpus:
        fit = workers_that_fit(spec, stage, timings)
        room = whole(min(timing.workers + free / knobs.num_cpus, fit))
    if knobs.max_workers is not None and knobs.is_asked_for:
        most = min(wanted, knobs.max_workers)
    if now < min(wanted, room) and now == knobs.max_workers:
        workers = min(wanted, room)
        return More(f"{knobs.most}={workers}", workers, need_of(stage, workers, spec, timings))
    if not waits(timing) or not knobs.num_cpus or most <= now or room >= most:
        return None
    share = math.floor((timing.workers * knobs.num_cpus + free) / most * 100) / 100
    if not share:
        return None
    return More(f"{knobs.cpus}={share:g}", most, need_of(stage, most, spec, timings))


def waits(timing: StageTiming) -> bool:
    """Whether a worker could do with less of a core."""
    return timing.ready < WAITS_BELOW * timing.busy


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


def advise_inline(spec: BatchInferenceSpec, stage: str, timings: Timings) -> Advice:
    """What to change where one process does everything: several of them, if that pays."""
    there = spec.model_copy(update={"cluster": LocalCluster()})
    num_gpus = gpus_here(there)
    there = with_cores(there, num_gpus)
    workers = workers_at_hand(there, timings.shares or 1)
    spent = {name: timings.stages[name].busy for name in STAGES}
    if preprocesses_in_replicas(there, num_gpus):
        spent["infer"] += spent.pop("preprocess")
    needs = [seconds / workers[name] for name, seconds in spent.items()]
    busy = timings.cores_in_use(spec.resources.cores) * timings.seconds
    gain = timings.seconds / (max(*needs, busy) + RAY_STARTS_SECONDS)
    if gain < WORTH_IT:
        return Advice("nothing: starting Ray would take longer than its workers save")
    reason = f"Ray has room for {workers[stage]} worker(s) of it on this machine"
    return Advice(reason, "cluster.kind=local", gain)
