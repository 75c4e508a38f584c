"""What to change where the replicas bound a run, and have GPUs."""

from dataclasses import replace

from tasks.ray_job.counts import STAGES
from tasks.reporting.advice import WORTH_IT, Advice, advise, ask_for_nodes
from tasks.reporting.knobs import knobs_of
from tasks.reporting.needs import best_need, need_of_late, workers_at_once
from tasks.reporting.spare_capacity import free_cores, is_accepted, workers_that_fit
from tasks.reporting.timings import Timings
from tasks.spec import BatchInferenceSpec
from tasks.whole import whole

DEVICE_IS_BUSY = 0.85


def advise_device(spec: BatchInferenceSpec, timings: Timings) -> Advice:
    """Let replicas share GPUs that have time for it."""
    infer = timings.stages["infer"]
    if not infer.device:
        return Advice("nothing: how busy its GPUs were is unknown")
    asked = 1.0 if spec.resources.num_gpus == "auto" else float(spec.resources.num_gpus)
    used = gpu_share(asked, timings)
    if used >= DEVICE_IS_BUSY:
        reason = f"its GPUs are busy {used * 100:.0f} %"
        nothing = Advice(f"nothing: {reason}, only more of them help")
        more = advise_others(reason, spec, timings) or ask_for_nodes(spec, timings)
        return more or nothing
    reason = f"its GPUs are busy only {used * 100:.0f} %"
    if spec.model.kind == "vllm":
        engines = "a second engine would ask for most of the GPU's memory again"
        return Advice(f"{reason}: nothing, {engines}")
    most, twice = knobs_of(spec, "infer").max_workers, 2 * max(infer.most, round(infer.workers))
    if asked > 1 or (most is not None and most < twice):
        nothing = Advice(f"{reason}: nothing, replicas that share one would be no more than are")
        return advise_others(reason, spec, timings) or nothing
    if not have_room(twice, asked / 2, spec, timings):
        return Advice(f"{reason}: nothing, the nodes have no room for twice as many replicas")
    best = {each: best_need(spec, each, timings) for each in STAGES if each != "infer"}
    after = max(best, key=lambda each: best[each])
    seconds = max(best[after], used * infer.need(), need_of_late(twice, spec, timings))
    gain = infer.need() / seconds
    if gain < WORTH_IT:
        others = f"{after} is nearly as busy" if best[after] == seconds else "it comes too late"
        return Advice(f"{reason}: nothing, {others}")
    sharing = "two" if asked > 0.5 else "more"
    shared = f"resources.num_gpus={asked / 2:g}"
    return Advice(f"{reason}: let {sharing} replicas share one", shared, gain)


def advise_others(reason: str, spec: BatchInferenceSpec, timings: Timings) -> Advice | None:
    """More replicas, where only the bound on them kept them from GPUs that the nodes have.

    Args:
        reason: how busy those were that they had.
        spec: what was run.
        timings: of the steady time.
    """
    most = knobs_of(spec, "infer").max_workers
    now = workers_at_once("infer", spec, timings.stages["infer"])
    if most is None or now < most or workers_that_fit(spec, "infer", timings) <= now:
        return None
    more = advise(spec, "infer", timings)
    if more.setting is None:
        return None
    return replace(more, reason=f"{reason}, and the nodes have others: {more.reason}")


def have_room(replicas: int, num_gpus: float, spec: BatchInferenceSpec, timings: Timings) -> bool:
    """Whether so many replicas with so much of a GPU find cores too, and all else they ask for."""
    sharing = spec.with_part("resources", num_gpus=num_gpus, min_replicas=replicas)
    room = timings.stages["infer"].workers + free_cores(spec, timings) / spec.resources.cores
    return replicas <= whole(room) and is_accepted(sharing, timings)


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
