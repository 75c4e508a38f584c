"""What each stage's workers did with their time, as measured while the model was there."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tasks.kinds.clusters import InlineCluster
from tasks.machine import cores
from tasks.protocol.records import Record
from tasks.ray_job.cluster_capacity import Node
from tasks.ray_job.counts import STAGES
from tasks.reporting.evidence import Evidence, PastAttempt


@dataclass(frozen=True)
class StageTiming:
    """Seconds of a stage's workers, all together."""

    workers: float
    """On average."""
    busy: float
    computing: float = 0.0
    """Of the busy ones; in the others they waited for a core, a disk, a network, a device."""
    queued: float = 0.0
    """Of the busy ones: they waited for a core."""
    waiting: float | None = None
    """Nothing was there to be worked on; None where nobody has measured it."""
    blocked: float | None = None
    """Input was there, or a result, and had to wait: for room downstream, a core, the network."""
    device: float = 0.0
    """The replicas' GPUs were busy."""
    occupied: float = 0.0
    """Replicas had a batch in hand, its way there and back included."""
    holding: float = 1.0
    """Workers that held cores, on average of the whole time."""
    most: int = 1
    """Workers at once, at most."""

    @property
    def ready(self) -> float:
        """Seconds in which they computed, or would have with a core."""
        return self.computing + self.queued

    def need(self, workers: float | None = None) -> float:
        """Seconds that it would take alone, with so many workers."""
        return self.busy / (workers or self.workers) if self.busy else 0.0


@dataclass(frozen=True)
class Timings:
    """A steady stretch of work."""

    seconds: float
    stages: dict[str, StageTiming]
    rows: int
    batches: int
    cores: float = 0.0
    """Cores that stages ask for theirs of: the cluster's, on average."""
    nodes: list[Node] = field(default_factory=list)
    """The cluster's as the job found them; none where the job is an earlier version's."""
    max_gpus: float | None = None
    """GPUs that the cluster lets its jobs hold; None: as many as there are."""
    shares: int | None = None
    """No more workers than that can read."""
    rows_per_batch: int | None = None
    """Rows that its batches had at most; None where nobody has said so."""
    replica_seconds: float = 0.0
    """That the first replica took to load the model; each that is added takes as long."""
    reads_kept: bool = False
    """Whether another job has cut its batches, and kept them."""
    machine_busy: float | None = None
    """Share of the machine's cores that was busy, with whatever else runs on it."""
    process_busy: float | None = None
    """The share of them that the job had, where one process did all of it."""
    replicas: list[dict[str, float]] = field(default_factory=list)
    """Busy, waiting and blocked seconds of each replica."""
    in_replicas: StageTiming | None = None
    """Preprocessing that replicas have done themselves; it is part of what infer has spent."""

    def share(self, stage: str) -> float:
        """How much of their time a stage's workers were busy."""
        return min(1.0, self.stages[stage].need() / self.seconds) if self.seconds else 0.0

    @property
    def device_share(self) -> float:
        """How much of the replicas' time their GPUs were busy."""
        infer = self.stages["infer"]
        there = infer.workers * self.seconds
        return min(1.0, infer.device / there) if there else 0.0

    def cores_in_use(self, of_replica: float) -> float:
        """Share of the cores that is in use: measured, or reckoned where nobody could.

        Args:
            of_replica: cores of one.
        """
        return self.own_cores(of_replica) if self.machine_busy is None else self.machine_busy

    def own_cores(self, of_replica: float) -> float:
        """Share of the cores that the job had: measured, or reckoned where nobody could.

        Of computing only a worker's own thread is known; replicas are taken to use all their cores.

        Args:
            of_replica: cores of one.
        """
        if self.process_busy is not None:
            return self.process_busy
        threads = {"infer": max(1.0, of_replica)}
        own = sum(each.computing * threads.get(name, 1.0) for name, each in self.stages.items())
        return own / ((self.cores or cores()) * self.seconds)

    def as_json(self, stage: str) -> dict[str, Any]:
        """A stage's part of the report."""
        own = self.in_replicas if stage == "preprocess" else None
        timing = asdict(own or self.stages[stage])
        found = {
            name: timing[name] for name in ("workers", "waiting", "blocked", "computing", "queued")
        }
        found = {name: None if each is None else round(each, 3) for name, each in found.items()}
        if stage == "infer":
            gpu_busy = round(self.device_share, 3) if timing["device"] else None
            return {**found, "gpu_busy": gpu_busy, "replicas": self.replicas}
        return found


def timings_of(evidence: Evidence, steady: float | None) -> Timings | None:
    """The timings of this call's longest attempt; None where nothing ran.

    Args:
        evidence: of the run.
        steady: seconds between the model's first row and its last.
    """
    if not steady:
        return None
    own = [each for each in evidence.own_attempts if each.occupancy]
    longest = max(own, key=lambda each: float(each.occupancy["seconds"]), default=None)
    if isinstance(evidence.planned.spec.cluster, InlineCluster) or longest is None:
        found = in_one_process(evidence, steady, *counted_rows(evidence.own_records))
        seen = longest.occupancy if longest else {}
        busy = seen.get("machine_busy"), seen.get("process_busy")
        return replace(found, machine_busy=busy[0], process_busy=busy[1])
    return replace(
        on_ray(longest.occupancy, *counted_rows(records_of(longest, evidence))),
        replica_seconds=seconds_to_load(longest, evidence.accepted.records),
        reads_kept=evidence.planned.is_cut,
        max_gpus=evidence.last_job.max_gpus if evidence.last_job else None,
    )


def seconds_to_load(attempt: PastAttempt, records: Iterable[Record]) -> float:
    """Between an attempt's first sign of work and its model's first row.

    Args:
        attempt: one of a run's.
        records: the run's, whichever attempt they are of.
    """
    if attempt.started is None:
        return 0.0
    begun, ended = attempt.started, attempt.started + attempt.seconds
    first = [each.inferred_at[0] for each in records if each.inferred_at]
    return min((at for at in first if begun <= at <= ended), default=begun) - begun


def in_one_process(evidence: Evidence, steady: float, rows: int, batches: int) -> Timings:
    """Of a job without Ray: one worker a stage."""
    stages = {
        stage: StageTiming(
            workers=1,
            busy=sum(count(each, stage, "seconds") for each in evidence.own_attempts),
            computing=sum(count(each, stage, "cpu_seconds") for each in evidence.own_attempts),
            queued=sum(count(each, stage, "queued_seconds") for each in evidence.own_attempts),
        )
        for stage in STAGES
    }
    shares = len(evidence.planned.plan.shards)
    return Timings(steady, stages, rows, batches, shares=shares)


def on_ray(found: dict[str, Any], rows: int, batches: int) -> Timings:
    """Of a job on Ray, as its driver has seen it."""
    seconds = found["seconds"]
    replicas = [
        {
            "busy": round(each["active"], 3),
            "waiting": round(each["waiting"], 3),
            "blocked": round(each["held_back"], 3),
        }
        for each in found["replicas"].values()
    ]
    stages = {
        stage: stage_on_ray(found["stages"][stage], seconds, is_pool=stage == "infer")
        for stage in STAGES
    }
    in_replicas = stages["preprocess"] if found.get("in_replicas") else None
    if in_replicas:
        stages |= {
            "preprocess": StageTiming(1, 0.0, holding=0.0),
            "infer": both(stages["infer"], in_replicas),
        }
    return Timings(
        seconds=seconds,
        stages=stages,
        rows=rows,
        batches=batches,
        cores=found["cores"],
        nodes=found.get("nodes", []),
        shares=found["shares"],
        rows_per_batch=found.get("rows_per_batch"),
        machine_busy=found["machine_busy"],
        replicas=replicas,
        in_replicas=in_replicas,
    )


def both(infer: StageTiming, preprocess: StageTiming) -> StageTiming:
    """The time of replicas that do both."""
    busy = infer.busy + preprocess.busy
    return replace(
        infer,
        busy=busy,
        computing=infer.computing + preprocess.computing,
        queued=infer.queued + preprocess.queued,
        blocked=max(0.0, (infer.blocked or 0.0) - preprocess.busy),
    )


def stage_on_ray(spent: dict[str, Any], seconds: float, *, is_pool: bool) -> StageTiming:
    """One stage; what a worker had in hand and did not work on was on its way, or found no room."""
    return StageTiming(
        workers=max(1.0, spent["there"] / spent["present"]) if spent["present"] else 1.0,
        busy=spent["seconds"],
        computing=spent["cpu_seconds"],
        queued=spent.get("queued_seconds", 0.0),  # of which earlier versions' jobs do not tell
        waiting=spent["waiting"],
        blocked=spent["held_back"] + max(0.0, spent["active"] - spent["seconds"]),
        device=spent["device_seconds"],
        occupied=spent["active"] if is_pool else 0.0,
        holding=spent["there" if is_pool else "active"] / seconds if seconds else 0.0,
        most=spent["workers"],
    )


def count(attempt: PastAttempt, stage: str, name: str) -> float:
    """One of a stage's counts; 0 where there is none."""
    return float(attempt.stages.get(stage, {}).get(name, 0.0))


def records_of(attempt: PastAttempt, evidence: Evidence) -> list[Record]:
    """Records of one of a call's attempts; the call's, where an earlier version made them.

    What other attempts did took none of its workers' time.
    """
    own = [each for each in evidence.accepted.records if each.attempt == attempt.number]
    return own or evidence.own_records


def counted_rows(records: list[Record]) -> tuple[int, int]:
    """Rows that went through the stages, and the records that have any."""
    rows = [len(each.ok) + len(each.filtered) + len(each.rejected) for each in records]
    return sum(rows), sum(1 for each in rows if each)
