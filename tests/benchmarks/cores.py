"""Who has the machine's cores while the model is at work: replicas, and all that is beside them."""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import psutil

from tasks.protocol.layout import OutputFolder
from tasks.protocol.records import Record, load_records
from tasks.protocol.storage import FsspecStorage
from tests.benchmarks.contenders import Job, contender, workload_named
from tests.benchmarks.fairness import read_through
from tests.benchmarks.process_tree import SAMPLE_SECONDS, Tree, run
from tests.benchmarks.side_by_side import surroundings
from tests.benchmarks.workloads.workload import Size

REPLICAS = "replicas: preprocessing and model"
WORKERS = "readers and writers"
ACTORS = "actors of Ray and of the job that mostly wait"
DAEMONS = "Ray's own processes"
KINDS = (
    ("ray::MapWorker", REPLICAS),
    ("tasks.ray_job", "the job's driver"),
    ("prefect server", "Prefect's server"),
    ("batch-inference", "the flow"),
    *((f"ray::{name}", ACTORS) for name in ("_", "Counting", "ActorLocation")),
    *((f"ray::{name}", DAEMONS) for name in ("DashboardAgent", "RuntimeEnvAgent")),
    ("ray::", WORKERS),
    ("/ray/", DAEMONS),
)
"""What a process is, by a part of its command line; the first that fits, of what it ever was."""
REST = "the rest"


@dataclass(frozen=True)
class Look:
    """CPU seconds of each process up to a moment."""

    at: float
    cpu: dict[int, float]


@dataclass
class Watch:
    """Looks at all processes below this one, again and again."""

    looks: list[Look] = field(default_factory=list)
    titles: dict[int, set[str]] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)

    def go_on(self) -> None:
        """Until it is over."""
        tree = Tree(os.getpid())
        while not self.over.wait(SAMPLE_SECONDS):
            tree.look()
            self.looks.append(Look(time.time(), {each.pid: s for each, s in tree.cpu.items()}))
            for each in tree.cpu:
                self.titles.setdefault(each.pid, set()).add(title_of(each))

    def spent(self, begun: float, ended: float) -> dict[str, float]:
        """CPU seconds between two moments, by what processes are; not those of this one."""
        first, last = (min(self.looks, key=partial(away, at)) for at in (begun, ended))
        found: dict[str, float] = {}
        for pid, seconds in last.cpu.items():
            kind = kind_of(self.titles[pid])
            if pid != os.getpid():
                found[kind] = found.get(kind, 0.0) + seconds - first.cpu.get(pid, 0.0)
        return found


def away(moment: float, look: Look) -> float:
    """Seconds between a moment and a look."""
    return abs(look.at - moment)


def title_of(process: psutil.Process) -> str:
    """A process's command line; empty where it is gone."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def kind_of(titles: set[str]) -> str:
    """What a process is that has had these titles: Ray gives its workers new ones as they work."""
    kinds = (kind for part, kind in KINDS if any(part in title for title in titles))
    return next(kinds, REST)


def measure(folder: Path, workload: str, size: Size = "whole") -> list[str]:
    """A table of who has had the cores."""
    watch = Watch()
    watcher = threading.Thread(target=watch.go_on)
    watcher.start()
    try:
        records, rows = one_run(folder, workload, size)
    finally:
        watch.over.set()
        watcher.join()
    spans = [each.inferred_at for each in records if each.inferred_at]
    begun, ended = min(begun for begun, _ in spans), max(ended for _, ended in spans)
    return table(watch.spent(begun, ended), ended - begun, rows)


def one_run(folder: Path, workload: str, size: Size) -> tuple[Sequence[Record], int]:
    """Our run of a workload: its records, and how many rows it wrote."""
    ours, module = contender("local", workload), workload_named(workload)
    job = Job(module, folder / "inputs", folder / "weights", folder / "output")
    for each in (job.inputs, job.weights):
        each.mkdir()
    module.make_weights(job.weights, 0)
    module.make_inputs(job.inputs, module.SIZES[size], 0)
    read_through(job.inputs)
    with surroundings([ours], folder) as environment:
        told: dict[str, Any] = run(ours.command(job), environment, folder / "output.log").told
    storage = FsspecStorage(fsspec.filesystem("file"))
    records = load_records(storage, OutputFolder(str(job.output)).run(told["run_id"]))
    return records, told["rows"]["written"]


def table(spent: dict[str, float], seconds: float, rows: int) -> list[str]:
    """The lines for RESULTS.md."""
    cores = os.cpu_count() or 1
    most_first = sorted(spent.items(), key=lambda each: -each[1])
    idle = cores * seconds - sum(spent.values())
    return [
        f"{rows:,} rows, {seconds:.1f} s from the first row in the model to the last; {cores} "
        "cores. CPU seconds of all processes meanwhile.",
        "",
        "| who | CPU, s | of the cores |",
        "| --- | ---: | ---: |",
        *(
            f"| {who} | {each:.1f} | {each / cores / seconds:.1%} |"
            for who, each in [*most_first, ("nobody, or others", idle)]
        ),
    ]
