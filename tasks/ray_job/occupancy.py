"""What becomes of the time of a job's workers: at work, waiting for input, or held back."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from tasks.machine import busy_seconds, cores
from tasks.ray_job.cluster_capacity import Node
from tasks.ray_job.counts import STAGES, Snapshot

NODES_EVERY_SECONDS = 10.0
"""Between two looks at a cluster's nodes, each a call to its head."""


@dataclass(frozen=True)
class StageWorkers:
    """A stage's workers at one moment."""

    active: int
    """Workers with work in hand."""
    ready: int
    """Workers there are: replicas that have loaded the model, or tasks that run."""
    queued: int
    """Batches, or shares of the input, that wait for a worker."""
    replicas: dict[str, bool] = field(default_factory=dict)
    """Which replicas have work in hand, by id."""


@dataclass
class Spent:
    """Seconds of one stage's workers, all together, or of one replica."""

    workers: int = 0
    """The most at once."""
    present: float = 0.0
    """Until the stage was done."""
    there: float = 0.0
    active: float = 0.0
    waiting: float = 0.0
    """Without work, and none was at hand."""
    held_back: float = 0.0
    """Without work though some was at hand: what came of it would have had no place."""

    def add(self, seconds: float, workers: int, seen: StageWorkers) -> None:
        """So many workers were there for so long."""
        self.workers = max(self.workers, workers)
        active = min(seen.active, workers)
        self.present += seconds
        self.there += workers * seconds
        self.active += active * seconds
        idle = (workers - active) * seconds
        if seen.queued:
            self.held_back += idle
        else:
            self.waiting += idle


@dataclass
class Occupancy:
    """The time of all workers of a job, from the moment on that the model is there."""

    cores: float = 0.0
    """CPU cores of the cluster now."""
    nodes: list[Node] = field(default_factory=list)
    """Its nodes as the job found them: what the next one is likely to find again."""
    rows_per_batch: int | None = None
    """Rows of a batch at most, as the job has cut them."""
    shares: int = 0
    """Shares of the input: no more workers than that can read."""
    is_one_machine: bool = False
    """Whether the driver's machine is all there is: it can then say how busy its cores are."""
    is_this_process: bool = False
    """Whether the driver's process does all of the work itself."""
    in_replicas: bool = False
    """Whether replicas do the preprocessing too."""
    seconds: float = 0.0
    core_seconds: float = 0.0
    stages: dict[str, Spent] = field(default_factory=lambda: {each: Spent() for each in STAGES})
    replicas: dict[str, Spent] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.at: float | None = None
        self.last: dict[str, StageWorkers] = {}
        self.before: Snapshot = {}
        self.busy_before = (0.0, 0.0, 0.0)
        self.grown_at: float | None = None

    def see(self, now: float, workers: dict[str, StageWorkers]) -> None:
        """Take note; what was seen last was so until now.

        Args:
            now: on any clock that only goes forward.
            workers: of the stages at work; one that is done is not among them.
        """
        if self.at is not None:
            self.add(now - self.at, self.last)
        elif "infer" in workers and not workers["infer"].ready:
            return  # readers run ahead while the model is loaded, which bounds nothing
        self.at, self.last = now, workers

    def grow(self, now: float, nodes: Callable[[], list[Node]]) -> None:
        """Take note of nodes that have come or gone; called often, looks now and then.

        Args:
            now: on any clock that only goes forward.
            nodes: asks for what each of the cluster's has.
        """
        if self.grown_at is not None and now - self.grown_at < NODES_EVERY_SECONDS:
            return
        self.grown_at = now
        with suppress(Exception):  # a head that is away for a moment ends no job
            there = nodes()
            self.cores = sum(node.get("CPU", 0.0) for node in there)
            self.is_one_machine = self.is_one_machine and len(there) < 2

    def add(self, seconds: float, stages: dict[str, StageWorkers]) -> None:
        """The stages were like this for so long."""
        self.seconds += seconds
        self.core_seconds += self.cores * seconds
        for stage, seen in stages.items():
            spent = self.stages[stage]
            # A task ends with its work, but its place stays.
            workers = seen.ready if seen.replicas else max(spent.workers, seen.active)
            spent.add(seconds, workers, seen)
            for name, active in seen.replicas.items() if stage == "infer" else ():
                one = StageWorkers(int(active), 1, seen.queued)
                self.replicas.setdefault(name, Spent()).add(seconds, 1, one)

    def as_json(self, counts: Snapshot) -> dict[str, Any]:
        """All of it, and what the stages themselves have measured since; empty before it begins.

        Args:
            counts: what the stages have done so far.
        """
        if self.at is None:
            return {}
        now, busy, own = time.monotonic(), busy_seconds(), time.process_time()
        if not self.before:
            self.before, self.busy_before = counts, (now, busy, own)
        begun, busy_then, own_then = self.busy_before
        could_be = cores() * (now - begun)
        return {
            # On average, as are the workers that hold them.
            "cores": round(self.core_seconds / self.seconds, 3) if self.seconds else self.cores,
            "nodes": [told(node) for node in self.nodes],
            "shares": self.shares,
            "rows_per_batch": self.rows_per_batch,
            "in_replicas": self.in_replicas,
            "seconds": self.seconds,
            "machine_busy": min(1.0, (busy - busy_then) / could_be)
            if self.is_one_machine and could_be
            else None,
            "process_busy": min(1.0, (own - own_then) / could_be)
            if self.is_this_process and could_be
            else None,
            "stages": {
                stage: {**asdict(spent), **since(self.before[stage], counts[stage])}
                for stage, spent in self.stages.items()
            },
            "replicas": {name: asdict(spent) for name, spent in self.replicas.items()},
        }


def told(node: Node) -> Node:
    """What a node has of that which stages can ask for."""
    return {
        name: round(amount, 3)
        for name, amount in node.items()
        if name in ("CPU", "GPU", "memory") or name.startswith("accelerator_type:")
    }


def since(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """What a stage has measured of itself since then."""
    names = ("rows", "seconds", "cpu_seconds", "queued_seconds", "device_seconds")
    return {name: now[name] - before[name] for name in names}
