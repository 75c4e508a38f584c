"""The run in figures: seconds, what each stage did, rows done twice."""

from collections import Counter
from typing import Any

from tasks.ray_job.counts import STAGES
from tasks.ray_job.stage_functions import has_preprocessing
from tasks.record_coverage import count_rows
from tasks.reporting.evidence import Evidence, PastAttempt
from tasks.reporting.timings import Timings
from tasks.spec import BatchInferenceSpec

Seconds = dict[str, float | None]
StageRows = dict[str, dict[str, int]]


def measure_seconds(evidence: Evidence, total: float) -> Seconds:
    """How long this call took in all, until the model's first row, and steadily.

    The first job of a run that is cut is no start-up: it did rows.

    Steady runs from the first row that the model took to the last that it gave, summed over
    attempts: between them nothing ran. All three are of this call alone, so that they compare.
    """
    spans = own_spans(evidence)
    if not spans:
        return {"total": round(total, 3), "startup": None, "steady": None}
    first = min(begun for _, begun, _ in spans)
    steady = steady_seconds(spans)
    startup = startup_seconds(evidence, first, max(0.0, total - steady))
    return {"total": round(total, 3), "startup": round(startup, 3), "steady": round(steady, 3)}


def startup_seconds(evidence: Evidence, first: float, most: float) -> float:
    """Until the model's first row, less what the first job of a cut run had done rows by then.

    It may work again later, as where what it has kept is gone.

    Args:
        evidence: of the run.
        first: when the model took its first row, on the clock of its machine.
        most: what is left of the call's time. Where the start does not fit in there, clocks
            differ, and all of it counts.
    """
    before = [each for each in evidence.first_job.attempts if (each.started or 0.0) < first]
    kept = sum(each.seconds for each in before if is_own(evidence, each))
    startup = first - evidence.started - kept
    return startup if 0 <= startup <= most else max(0.0, most - kept)


def is_own(evidence: Evidence, attempt: PastAttempt) -> bool:
    """Whether an attempt began in this call."""
    return attempt.started is not None and attempt.started >= evidence.started


def written_per_second(evidence: Evidence, steady: float | None) -> float | None:
    """Rows that this call has written in a second of its steady time; None where nothing ran.

    Of an upsert all that were predicted: it took as long to make those that newer ones superseded.
    """
    rows = sum(file.rows for record in evidence.own_records for file in record.files)
    return round(rows / steady, 3) if steady else None


def own_spans(evidence: Evidence) -> list[tuple[int, float, float]]:
    """When the model was at work in this call, and in which attempt's job.

    Of a job that was there before from the call on: what it had done before, and only the records
    were made since, took none of the call's time.
    """
    own = [(each.attempt, *each.inferred_at) for each in evidence.own_records if each.inferred_at]
    before, since = evidence.planned.attempts_before, evidence.started
    return [
        (attempt, begun if attempt > before else max(begun, since), ended)
        for attempt, begun, ended in own
        if attempt > before or ended > since
    ]


def steady_seconds(spans: list[tuple[int, float, float]]) -> float:
    """From the first to the last moment of each attempt, summed."""
    bounds: dict[int, tuple[float, float]] = {}
    for attempt, begun, ended in spans:
        first, last = bounds.get(attempt, (begun, ended))
        bounds[attempt] = (min(first, begun), max(last, ended))
    return sum(last - first for first, last in bounds.values())


def stage_rows(evidence: Evidence) -> StageRows:
    """Rows that entered each stage and what became of them, from the accepted records.

    Records do not say which stage filtered a row. Where both can, the attempts' own counts do,
    and what they leave open is taken as filtered before the model.
    """
    counts = count_rows(evidence.accepted)
    rejected = rejected_by_stage(evidence)
    by_model = sum(attempt.stages["infer"]["filtered"] for attempt in counted(evidence))
    filtered = {"infer": counts["filtered"]}
    if has_preprocessing(evidence.planned.spec):
        filtered["infer"] = min(by_model, counts["filtered"])
        filtered["preprocess"] = counts["filtered"] - filtered["infer"]
    stages, left = {}, counts["read"]
    for stage in STAGES:
        is_empty = stage == "preprocess" and not has_preprocessing(evidence.planned.spec)
        lost = rejected[stage], filtered.get(stage, 0)
        rows = 0 if is_empty else counts["written"] if stage == "write" else left
        stages[stage] = {"rows": rows, "rejected": lost[0], "filtered": lost[1]}
        left -= sum(lost)
    return stages


def rejected_by_stage(evidence: Evidence) -> Counter[str]:
    """Rows that stayed rejected, by the stage that set them aside.

    Lines that a newer version has replaced since can be read no more: then the attempts' own
    counts tell, the last one's first: each tries again what those before it have set aside.
    """
    lines, left = evidence.rejections.by_stage, len(evidence.accepted.rejected)
    if lines.total() == left:
        return lines
    told: Counter[str] = Counter()
    for attempt in reversed([*counted(evidence)]):
        for stage in STAGES:
            its = min(left, attempt.stages[stage]["rejected"])
            told[stage] += its
            left -= its
    return told


def counted(evidence: Evidence) -> Any:
    """Attempts that have said something."""
    return (attempt for attempt in evidence.attempts if attempt.stages)


def stage_figures(evidence: Evidence, timings: Timings | None) -> dict[str, dict[str, Any]]:
    """Rows and busy seconds of the whole run, and this call's steady time, by stage."""
    return {
        stage: {
            **rows,
            "seconds": round(busy_seconds_of_all(evidence, stage), 3),
            "share": None if timings is None else round(timings.share(stage), 3),
            **({} if timings is None else timings.as_json(stage)),
        }
        for stage, rows in stage_rows(evidence).items()
    }


def busy_seconds_of_all(evidence: Evidence, stage: str) -> float:
    """A stage's busy seconds in the whole run.

    A record cannot say how long it took to store it: of writing, the attempts' own counts do. The
    first job of two writes what is not written.
    """
    if stage == "write":
        return sum(each.stages[stage]["seconds"] for each in counted(evidence))
    first = evidence.first_job.records
    return busy_seconds(evidence.accepted.records, stage) + busy_seconds(first, stage)


def busy_seconds(records: Any, stage: str) -> float:
    """A stage's busy seconds, summed over its workers."""
    return sum(record.seconds.get(stage, 0.0) for record in records)


def hours_held(evidence: Evidence) -> dict[str, float]:
    """Hours of CPU cores and GPUs that all of the run's attempts have held."""
    attempts = evidence.all_attempts
    return {
        name: round(sum(attempt.held.get(name, 0.0) for attempt in attempts), 9)
        for name in ("cpu_hours", "gpu_hours")
    }


def cost_of(spec: BatchInferenceSpec, held: dict[str, float]) -> float | None:
    """What was held at the spec's prices; None where it names none."""
    prices = {"cpu_hours": spec.cost.per_cpu_hour, "gpu_hours": spec.cost.per_gpu_hour}
    known = {name: price for name, price in prices.items() if price is not None}
    if not known:
        return None
    return round(sum(held[name] * price for name, price in known.items()), 6)


def count_redone(evidence: Evidence, stages: StageRows) -> int:
    """Rows that left the model more than once or in vain: crashes, replays, changed inputs.

    A killed job's last word is up to two seconds old: where its records know of more rows, they
    count.
    """
    told = Counter({each.number: each.rows("infer") for each in evidence.attempts})
    recorded: Counter[int] = Counter()
    for record in evidence.records:
        recorded[record.attempt] += sum(file.rows for file in record.files)
    left = (told | recorded).total()  # of each attempt the greater one
    if recorded[0]:  # an earlier version's records do not name theirs
        left = max(told.total(), recorded.total())
    infer = stages["infer"]
    return max(0, left - stages["write"]["rows"] - infer["rejected"] - infer["filtered"])
