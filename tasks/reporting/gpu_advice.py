"""What to change where the replicas bound a run, and have GPUs."""

from tasks.ray_job.counts import STAGES
from tasks.reporting.advice import WORTH_IT, Advice
from tasks.reporting.knobs import knobs_of
from tasks.reporting.needs import best_need, need_of_late
from tasks.reporting.room_there import free_cores, is_accepted, with_resources
from tasks.reporting.timings import Timings
from tasks.spec import BatchInferenceSpec
from tasks.whole import whole

DEVICE_IS_BUSY = 0.85


def advise_device(spec: BatchInferenceSpec, timings: Timings) -> Advice:
    """Let replicas share GPUs that have time for it."""
    infer = timings.stages["infer"]
    if not infer.device:
        return Advice("nothing: nobody tells how busy its GPUs were")
    asked = 1.0 if spec.resources.num_gpus == "auto" else float(spec.resources.num_gpus)
    used = gpu_share(asked, timings)
    if used >= DEVICE_IS_BUSY:
        return Advice(f"nothing: its GPUs are busy {used * 100:.0f} %, only more of them help")
    reason = f"its GPUs are busy only {used * 100:.0f} %"
    if spec.model.kind == "vllm":
        engines = "a second engine would ask for most of the GPU's memory again"
        return Advice(f"{reason}: nothing, {engines}")
    most, twice = knobs_of(spec, "infer").max_workers, 2 * max(infer.most, round(infer.workers))
    if asked > 1 or (most is not None and most < twice):
        return Advice(f"{reason}: nothing, replicas that share one would be no more than there are")
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


def have_room(replicas: int, num_gpus: float, spec: BatchInferenceSpec, timings: Timings) -> bool:
    """Whether so many replicas with so much of a GPU find cores too, and all else they ask for."""
    sharing = with_resources(spec, num_gpus=num_gpus, min_replicas=replicas)
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
