"""What to change where the replicas bound a run, and have GPUs."""

from tasks.ray_job.counts import STAGES
from tasks.reporting.advice import Advice, best_need
from tasks.reporting.timings import Timings
from tasks.spec import BatchInferenceSpec

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
