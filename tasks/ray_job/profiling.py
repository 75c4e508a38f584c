"""Profiles of a job's stages, where a run asks for them: where does the time go?

Every process profiles its first batches of a stage with cProfile; a replica of the model also
traces one call with torch's profiler. Of many processes, the first few leave their profiles.
"""

import cProfile
import io
import marshal
import os
import platform
import pstats
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from tasks.counted import counted
from tasks.ray_job.blame import Function
from tasks.ray_job.counts import Stage
from tasks.ray_job.job import Job

Item = TypeVar("Item")
BATCHES = 8
"""Batches of a stage that a process profiles; the first alone where there is no other."""
PROCESSES = 4
"""That leave profiles of a stage."""
TRACED_CALL = 2
"""Of the model: the first warms up."""
ROWS_BEFORE_TRACE = 16
"""Rows of the first call, so that small jobs have a second one."""
SHOWN_LINES = 30
STAGES_BEGUN: "dict[tuple[str, str], StageProfile]" = {}
"""This process's profiles, by run and stage."""


@dataclass
class StageProfile:
    """What one process has seen of a stage."""

    job: Job
    stage: str
    batches: int = 0
    profiler: cProfile.Profile = field(default_factory=cProfile.Profile)

    def __post_init__(self) -> None:
        there = self.job.storage.list(self.job.run.profile)
        begins = f"{self.job.run.profile}/{self.stage}-"
        others = [s for s in there if s.path.startswith(begins) and s.path.endswith(".pstats")]
        self.left = BATCHES + 1 if len(others) < PROCESSES else 0

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Profile what is done with one batch; once enough are, do nothing."""
        if not self.left:
            yield
            return
        if self.batches == 1 and self.left == BATCHES:
            self.profiler, self.batches = cProfile.Profile(), 0  # the first one loaded modules
        try:
            self.profiler.enable()
        except ValueError:  # from Python 3.12 on there is one in a process: another thread has it
            yield
            return
        try:
            yield
        finally:
            self.profiler.disable()
        self.left -= 1
        self.batches += 1
        self.save()

    def save(self) -> None:
        """Store what is profiled so far."""
        self.profiler.create_stats()
        stats: dict[Any, Any] = vars(self.profiler)["stats"]
        text = io.StringIO()
        text.write(f"stage {self.stage}, {self.batches} batches of process {process()}\n\n")
        if stats:
            table = pstats.Stats(self.profiler, stream=text)
            table.sort_stats("tottime").print_stats(SHOWN_LINES)
            table.sort_stats("cumtime").print_stats(SHOWN_LINES)
        keep(self.job, f"{self.stage}-{process()}.pstats", marshal.dumps(stats))
        keep(self.job, f"{self.stage}-{process()}.txt", text.getvalue().encode())


def process() -> str:
    """This process, among all nodes' ones."""
    return f"{platform.node()}-{os.getpid()}"


def keep(job: Job, name: str, data: bytes) -> None:
    """Store a file of the profile; a run does not fail for want of one."""
    try:
        job.storage.write(f"{job.run.profile}/{name}", data)
    except OSError as error:
        print(f"a profile could not be stored: {error}")


def profile_of(job: Job, stage: str) -> StageProfile:
    """This process's profile of a stage."""
    key = (job.folder, stage)
    if key not in STAGES_BEGUN:
        STAGES_BEGUN[key] = StageProfile(job, stage)
    return STAGES_BEGUN[key]


@contextmanager
def profiled(job: Job, stage: str) -> Iterator[None]:
    """Profile a block as the stage's work on one batch, where the run asks for it."""
    if not job.profile:
        yield
        return
    with profile_of(job, stage).batch():
        yield


def profiled_items(job: Job, stage: str, items: Iterator[Item]) -> Iterator[Item]:
    """The same items; making each of them is profiled."""
    if not job.profile:
        yield from items
        return
    while True:
        with profiled(job, stage):
            item = next(items, None)
        if item is None:
            return
        yield item


def profiled_stage(job: Job, name: str, stage: Stage) -> Stage:
    """A stage that is profiled where the run asks for it."""
    return (lambda batch: profiled_items(job, name, stage(batch))) if job.profile else stage


def traced(job: Job, predict: Function) -> Function:
    """A model whose second call leaves a trace of torch's, where it uses torch."""
    calls = 0

    def call(rows: pa.Table) -> pa.Table:
        nonlocal calls
        calls += 1
        if calls != TRACED_CALL or "torch" not in sys.modules:
            return predict(rows)
        return trace(job, predict, rows)

    return call if job.profile else predict


def trace(job: Job, predict: Function, rows: pa.Table) -> pa.Table:
    """Predict under torch's profiler, and store its trace and its table of operators."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    cuda = torch.cuda.is_available()
    on = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    with profile(activities=on) as profiler:
        predicted = predict(rows)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json.gz"
        profiler.export_chrome_trace(str(file))
        keep(job, f"model-{process()}.trace.json.gz", file.read_bytes())
    by = "self_device_time_total" if cuda else "self_cpu_time_total"
    table = profiler.key_averages().table(sort_by=by, row_limit=SHOWN_LINES)
    call = f"the model's call {TRACED_CALL}, {counted(len(rows), 'row')}"
    text = f"{call}, process {process()}\n\n{table}"
    keep(job, f"model-{process()}.operators.txt", text.encode())
    return predicted
