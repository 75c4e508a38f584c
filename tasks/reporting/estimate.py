"""What a whole run would take, from a few batches of it."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from tasks.kinds.clusters import InlineCluster
from tasks.protocol.records import Record
from tasks.ray_job.cluster_capacity import Node
from tasks.ray_job.counts import STAGES
from tasks.ray_job.own_machine import preprocesses_in_replicas, with_cores
from tasks.reporting.batches_seen import are_too_quick, rows_in, seconds_per_row, steady
from tasks.reporting.figures import cost_of
from tasks.reporting.full_run import FullRun
from tasks.reporting.where_it_goes import where_it_goes, within_limit
from tasks.reporting.workers import workers_at_hand
from tasks.spec import BatchInferenceSpec

Range = tuple[float, float]
LONG_SECONDS = 60.0
"""Nobody needs to know more closely what takes less."""
MORE_TIMES = 100


@dataclass(frozen=True)
class Estimate:
    """Seconds of steady work, from the fastest and the slowest of the batches seen."""

    rows: int
    is_total: bool
    """Whether `rows` are all there are; else a million, since nobody knows their number."""
    stage: str
    """The stage that bounds it."""
    workers: int
    """Workers of that stage that were reckoned with."""
    batches: int
    seconds: float
    seconds_range: Range
    cost: float | None
    """At the spec's prices; None where it names none, or nobody knows what GPUs are held."""
    cost_range: Range | None
    more_rows: int | None = None
    """Rows to preview for a closer estimate, where a batch of those seen took so little that most
    of it may be what each takes by itself: the seconds are an upper bound then; else None."""

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def estimate_run(
    spec: BatchInferenceSpec,
    trial: BatchInferenceSpec,
    records: tuple[Record, ...],
    whole: FullRun,
    *,
    num_gpus: float | None,
    nodes: list[Node] | None = None,
    max_gpus: float | None = None,
) -> Estimate | None:
    """Reckon a whole run from the batches of a preview; None where no row came through.

    Stages run side by side, so that the slowest bounds the run. Start-up is not in it: nor is the
    first batch.

    Args:
        spec: what the run would do.
        trial: what the preview was asked to do.
        records: what it did, a batch each.
        whole: what lies at the source.
        num_gpus: GPUs that one replica of the model holds; None where nobody knows.
        nodes: of the cluster, as `nodes_found` has them.
        max_gpus: GPUs that its jobs may hold; None: as many as there are.
    """
    records = steady(records)
    if not records:
        return None
    gpus = num_gpus or 0.0
    spec = of_replicas_alike(where_it_goes(spec), trial, gpus)
    spec = within_limit(spec, max_gpus, gpus)
    rows = 1_000_000 if whole.rows is None else whole.rows
    one = stages_of_one_row(spec, records, gpus)
    at_hand = workers_at_hand(spec, whole.shards, nodes)
    workers = {stage: at_hand[stage] for stage in one}
    means = {stage: one[stage] / workers[stage] for stage in one}
    stage = max(means, key=lambda each: means[each])
    each_alone = [stages_of_one_row(spec, (each,), gpus)[stage] for each in records]
    spread = [rows * seconds / workers[stage] for seconds in each_alone]
    seconds, bounds = rows * means[stage], (min(spread), max(spread))
    holding = at_work(one, workers, means[stage])
    costs = [cost_of_seconds(spec, holding, num_gpus, each) for each in (seconds, *bounds)]
    return Estimate(
        rows=rows,
        is_total=whole.rows is not None,
        stage=stage,
        workers=workers[stage],
        batches=len(records),
        seconds=seconds,
        seconds_range=bounds,
        cost=costs[0],
        cost_range=None if costs[1] is None or costs[2] is None else (costs[1], costs[2]),
        more_rows=more_rows(spec, records, each_alone, rows) if seconds >= LONG_SECONDS else None,
    )


def more_rows(
    spec: BatchInferenceSpec, records: tuple[Record, ...], seconds_per_row: list[float], rows: int
) -> int | None:
    """Rows to preview for a closer estimate; None where these tell enough.

    Args:
        spec: what the run would do.
        records: of the batches seen.
        seconds_per_row: of the slowest stage, in each of these.
        rows: of the run.
    """
    seen = [rows_in(record) for record in records]
    seconds = [each * count for each, count in zip(seconds_per_row, seen, strict=True)]
    return min(MORE_TIMES * sum(seen), rows) if are_too_quick(spec, records, seconds) else None


def at_work(
    one: dict[str, float], workers: dict[str, int], seconds_per_row: float
) -> dict[str, int]:
    """Workers that hold cores: of preprocessing no more than keep up, of all others all.

    Its tasks are of a batch each. Readers and replicas keep their cores also while they wait.

    Args:
        one: busy seconds of one worker for each row, by stage.
        workers: that there may be, by stage.
        seconds_per_row: of the stage that bounds the run.
    """
    if "preprocess" not in workers or not seconds_per_row:
        return workers
    needed = math.ceil(one["preprocess"] / seconds_per_row)
    return {**workers, "preprocess": min(workers["preprocess"], needed)}


def of_replicas_alike(
    spec: BatchInferenceSpec, trial: BatchInferenceSpec, num_gpus: float
) -> BatchInferenceSpec:
    """The spec with such replicas as the preview had.

    Where a run would go they are a run's; in this process they had one core, of which a run's have
    one or several.

    Args:
        spec: what the run would do.
        trial: what the preview was asked to do.
        num_gpus: GPUs that one replica holds.
    """
    is_there = trial.cluster.kind == spec.cluster.kind
    return with_cores(spec, num_gpus) if is_there else spec


def cost_of_seconds(
    spec: BatchInferenceSpec, workers: dict[str, int], num_gpus: float | None, seconds: float
) -> float | None:
    """What all stages' workers would cost for so long; None where no price says, or nobody knows.

    Args:
        spec: what the run would do.
        workers: of each stage, those that hold cores.
        num_gpus: GPUs that one replica holds; None where nobody knows.
        seconds: of steady work.
    """
    if num_gpus is None and spec.cost.per_gpu_hour:
        return None
    return cost_of(spec, held(spec, workers, num_gpus or 0.0, seconds))


def held(
    spec: BatchInferenceSpec, workers: dict[str, int], num_gpus: float, seconds: float
) -> dict[str, float]:
    """Hours of cores and GPUs that all stages' workers would hold for so long."""
    cores = spec.resources.cores * workers["infer"]
    if not isinstance(spec.cluster, InlineCluster):
        others = (stage for stage in workers if stage != "infer")
        cores += sum(getattr(spec.stages, stage).num_cpus * workers[stage] for stage in others)
    hours = seconds / 3_600
    return {"cpu_hours": cores * hours, "gpu_hours": num_gpus * workers["infer"] * hours}


def stages_of_one_row(
    spec: BatchInferenceSpec, records: tuple[Record, ...], num_gpus: float
) -> dict[str, float]:
    """Busy seconds for each row of those stages that have workers."""
    found = {stage: seconds_per_row(records, stage) for stage in STAGES}
    if preprocesses_in_replicas(spec, num_gpus):
        found["infer"] += found.pop("preprocess")
    return found
