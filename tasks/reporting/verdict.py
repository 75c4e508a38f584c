"""Which stage bounds a run, what that costs, and the one setting to change."""

from dataclasses import asdict, dataclass
from typing import Any

from tasks.counted import counted
from tasks.kinds.clusters import InlineCluster, LocalCluster
from tasks.planning.preflight import could_run_inline
from tasks.ray_job.counts import STAGES
from tasks.ray_job.own_machine import with_cores
from tasks.reporting.advice import Advice, advise, advise_inline, ask_for_nodes
from tasks.reporting.batch_advice import advise_batches
from tasks.reporting.bytecode import COMPILES_ANEW, compiles_anew
from tasks.reporting.gpu_advice import advise_device
from tasks.reporting.spare_capacity import holds_gpus
from tasks.reporting.timings import Timings
from tasks.reporting.workers import gpus_here
from tasks.spec import BatchInferenceSpec

ENOUGH_BATCHES = 5
BOUNDING_SHARE = 0.6
CORES_ARE_BUSY = 0.9
OWN_SHARE = 0.5
"""Of the busy cores: a job that has less of them is slowed by what else runs there."""
SMALL_SECONDS = 300.0
"""No job that works for longer is small, whatever it had to wait for before."""
COMPUTES = 0.25
"""Of a stage's busy time: with less it waits for something else than a core."""


@dataclass(frozen=True)
class Verdict:
    """What bounds a run."""

    stage: str | None
    """read, preprocess, infer, write or start-up; None where none of them does."""
    share: float | None
    """How much of its workers' time the stage was busy; of start-up: its share of the run."""
    gain: float | None
    """How many times as fast the run would be with the setting; None where nobody knows."""
    setting: str | None
    """What to change, as `--set` takes it; None where no setting helps."""
    reason: str

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def sentence(verdict: dict[str, Any]) -> str:
    """A verdict as a person reads it.

    Args:
        verdict: as JSON has it.
    """
    words = verdict["reason"]
    if verdict["setting"] and verdict["gain"]:
        words += f"; {verdict['setting']} would make the run {verdict['gain']:.1f} times as fast"
    return words if verdict["stage"] is None else f"{verdict['stage']}: {words}"


def judge_run(
    spec: BatchInferenceSpec,
    seconds: dict[str, float | None],
    timings: Timings | None,
    *,
    given: BatchInferenceSpec | None = None,
    memory_ran_out: bool = False,
    is_part: bool = False,
) -> Verdict | None:
    """What bounds the run; None where nothing ran.

    Args:
        spec: what was run, as its job was told.
        seconds: until the model's first row, and steadily from then on.
        timings: of the steady time.
        given: what was asked for, where that names no Ray that the job has joined.
        memory_ran_out: whether batches are halved, since this run or since one before.
        is_part: whether the timings are of a few of the rows that such a run has.
    """
    if not isinstance(spec.cluster, InlineCluster):  # of which it is measured, and not reckoned
        spec = with_cores(spec, gpus_here(spec))
    startup, steady = seconds["startup"], seconds["steady"]
    if startup is None or steady is None:
        return None
    if timings is None or steady < min(startup, SMALL_SECONDS):
        return of_startup(given or spec, startup, steady, timings, is_part=is_part)
    if timings.batches < ENOUGH_BATCHES:
        said = f"nothing can be said of {counted(timings.rows, 'row')} in so few batches"
        return Verdict(None, None, None, None, said)
    stage = max(STAGES, key=timings.share)
    if timings.share(stage) < BOUNDING_SHARE and not isinstance(spec.cluster, InlineCluster):
        return of_none(spec, stage, timings, memory_ran_out=memory_ran_out)
    return of_stage(spec, stage, timings, memory_ran_out=memory_ran_out)


def of_startup(
    given: BatchInferenceSpec,
    startup: float,
    steady: float,
    timings: Timings | None,
    *,
    is_part: bool,
) -> Verdict:
    """A run that was mostly start-up; of a part of one nobody can say how small the whole is."""
    # One word changes the cluster where it has no other field, and nothing is lost with it.
    is_plain = given.cluster == LocalCluster()
    stays = not is_plain or given.stages.preprocess.materialize or not could_run_inline(given)
    # There each stage has one worker.
    stays = stays or (timings is not None and seconds_inline(timings) > startup + steady)
    stays = stays or is_part
    share = round(startup / (startup + steady), 3) if startup + steady else None
    reason = f"{startup:.1f} s before the first row, then {steady:.1f} s"
    small = "the job is small" if stays else "set cluster.kind: inline for such small jobs"
    reason += f"; {'it did only a part of the rows' if is_part else small}"
    if isinstance(given.cluster, InlineCluster | LocalCluster) and compiles_anew():
        reason += COMPILES_ANEW
    return Verdict("start-up", share, None, None if stays else "cluster.kind=inline", reason)


def seconds_inline(timings: Timings) -> float:
    """Seconds that the slowest stage would take with one worker."""
    return max(each.need(1) for each in timings.stages.values())


def of_none(
    spec: BatchInferenceSpec, busiest: str, timings: Timings, *, memory_ran_out: bool
) -> Verdict:
    """No stage is busy: the time goes by between them, with each batch."""
    share = timings.share(busiest)
    reason = (
        f"no stage limits it, the busiest is {busiest} with {share * 100:.0f} %: the time passes "
        "between stages, batch by batch"
    )
    advice = advise_batches(spec, busiest, timings, memory_ran_out=memory_ran_out)
    gain = advice.gain and round(advice.gain, 2)
    return Verdict(None, round(share, 3), gain, advice.setting, f"{reason}; {advice.reason}")


def of_stage(
    spec: BatchInferenceSpec, stage: str, timings: Timings, *, memory_ran_out: bool
) -> Verdict:
    """One stage bounds the run."""
    share = timings.share(stage)
    reason = described(stage, timings)
    busy_cores = timings.cores_in_use(spec.resources.cores)
    is_inline = isinstance(spec.cluster, InlineCluster)
    needs_cores = computes(stage, timings) or (
        is_inline and not bound_elsewhere(spec, stage, timings)
    )
    if busy_cores >= CORES_ARE_BUSY and needs_cores:
        advice = without_cores(spec, stage, timings, busy_cores)
    else:
        advice = advised(spec, stage, timings, memory_ran_out=memory_ran_out)
    gain = None if advice.gain is None else round(capped(advice, busy_cores, stage, timings), 2)
    return Verdict(stage, round(share, 3), gain, advice.setting, f"{reason}; {advice.reason}")


def without_cores(
    spec: BatchInferenceSpec, stage: str, timings: Timings, busy_cores: float
) -> Advice:
    """What helps a stage that needs cores where all of them are busy."""
    busy = f"the machine's cores are all busy ({busy_cores * 100:.0f} %)"
    own, timing = timings.own_cores(spec.resources.cores), timings.stages[stage]
    # What Ray's own processes take is only known to be little where others let the stage wait.
    is_known = timings.process_busy is not None or timing.queued > timing.computing
    if is_known and own < OWN_SHARE * busy_cores:
        had = f"the job had {own * 100:.0f} % of them"
        return Advice(f"nothing: {busy}, and {had}: what else runs there takes the rest")
    more = ask_for_nodes(spec, timings) if stage == "infer" else None
    if more is None:
        return Advice(f"nothing: {busy}, only more of them help")
    return Advice(f"{busy}, only more of them help: {more.reason}", more.setting)


def advised(
    spec: BatchInferenceSpec, stage: str, timings: Timings, *, memory_ran_out: bool
) -> Advice:
    """What to change, if anything."""
    if bound := bound_elsewhere(spec, stage, timings):
        return Advice(f"nothing: {bound}")
    if memory_ran_out and (stage == "infer" or isinstance(spec.cluster, InlineCluster)):
        return Advice(
            "memory ran out: give replicas more of it; more replicas would each have less"
        )
    if isinstance(spec.cluster, InlineCluster):
        return advise_inline(spec, stage, timings)
    if not timings.nodes:
        return Advice("no advice: an earlier version ran its job and recorded no nodes")
    if stage == "infer" and holds_gpus(spec, timings):
        return advise_device(spec, timings)
    return advise(spec, stage, timings)


def bound_elsewhere(spec: BatchInferenceSpec, stage: str, timings: Timings) -> str | None:
    """What bounds a model that waits for others, in words; None where it is no such model."""
    if stage != "infer" or computes(stage, timings):
        return None
    return spec.model.bound(60 * timings.rows / timings.stages[stage].busy)


def described(stage: str, timings: Timings) -> str:
    """How busy the stage was, and who waited for it."""
    timing = timings.stages[stage]
    workers = f"{timing.workers:.3g} worker{'' if timing.workers == 1 else 's'}"
    words = f"busy {timings.share(stage) * 100:.0f} % of the time of its {workers}"
    infer, inside = timings.stages["infer"], timings.in_replicas
    if stage == "infer" and inside and infer.busy:
        words += f", {inside.busy / infer.busy * 100:.0f} % of it with preprocessing"
    if stage != "infer" and infer.device:
        words += f", and the GPUs only {timings.device_share * 100:.0f} % of theirs"
    return words


def computes(stage: str, timings: Timings) -> bool:
    """Whether a stage needs cores, and does not mostly wait."""
    timing = timings.stages[stage]
    return timing.ready >= COMPUTES * timing.busy


def capped(advice: Advice, busy_cores: float, stage: str, timings: Timings) -> float:
    """The gain, as far as there are cores for it."""
    assert advice.gain is not None
    most = 1 / busy_cores if busy_cores and computes(stage, timings) else advice.gain
    return max(1.0, min(advice.gain, most))
