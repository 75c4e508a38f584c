"""A job says how far it is: often at first, then often enough."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.ray_job import progress
from tasks.ray_job.counts import Counts, Report
from tasks.ray_job.progress import Progress
from tests.ray_job.test_own_machine import job_of, spec


def test_a_job_that_lasts_writes_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now, written = 1_000.0, []
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    job = replace(job_of(spec()), pins={"known_rows": 1_000})
    told = Progress(job, Counts().snapshot, num_reads=1)
    monkeypatch.setattr(told, "write", lambda *_: written.append(now - 1_000.0))
    for _ in range(400):
        told.step()
        now += 0.1
    early = [at for at in written if at < 30.0]
    late = [at for at in written if at >= 30.0]
    assert len(early) == pytest.approx(60, abs=10)
    assert max(after - before for before, after in pairwise(early)) < 0.7
    assert len(late) == pytest.approx(5, abs=1)


def told(tmp_path: Path, rows: int, *reports: Report) -> dict[str, Any]:
    """What a job that has so many rows says of its stages after these reports."""
    steps = [{"kind": "filter", "expression": "x > 0"}]
    sink = {"kind": "parquet", "path": str(tmp_path / "out")}
    job = replace(job_of(spec(steps=steps, sink=sink)), todo_rows=rows)
    counts = Counts()
    for each in reports:
        counts.add(each)
    Progress(job, counts.snapshot, num_reads=1).write("running", counts.snapshot())
    stages: dict[str, Any] = json.loads(job.storage.read(job.progress_file))["stages"]
    return stages


READ = Report("read", 100, 0, 0, 1.0, tasks=1, parents=100)


def test_a_stage_is_not_done_for_having_made_many_rows_of_a_few(tmp_path: Path) -> None:
    stages = told(
        tmp_path,
        100,
        READ,
        Report("preprocess", 500, 0, 0, 1.0, parents=10),
        Report("infer", 250, 0, 0, 1.0, parents=5),
    )
    assert {stage: count["state"] for stage, count in stages.items()} == {
        "read": "done",
        "preprocess": "running",
        "infer": "running",
        "write": "waiting",
    }
    assert [stages[stage]["total"] for stage in ("read", "preprocess", "infer")] == [
        100,
        5000,
        5000,
    ]


def test_a_stage_expects_what_those_before_it_let_through(tmp_path: Path) -> None:
    stages = told(
        tmp_path,
        100,
        READ,
        Report("preprocess", 50, 5, 40, 1.0, parents=50),
        Report("infer", 4, 2, 0, 1.0, parents=4),
    )
    assert [count["total"] for count in stages.values()] == [100, 100, 10, 5]
    assert stages["preprocess"]["state"] == "running"
    done = Report("preprocess", 50, 5, 40, 1.0, parents=50)
    last = Report("infer", 5, 0, 0, 1.0, parents=5)
    stages = told(tmp_path, 100, READ, done, done, Report("infer", 4, 2, 0, 1.0, parents=4), last)
    assert [stages[stage]["state"] for stage in ("preprocess", "infer")] == ["done", "running"]


@pytest.mark.parametrize("what", ["rows", "passed_over", "size", "tasks"])
def test_what_is_read_without_a_row_is_seen_to_move(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a job that reads on would be taken for one that has lost its room."""
    now = 1_000.0
    clock = SimpleNamespace(monotonic=lambda: now, time=lambda: now, process_time=lambda: now)
    monkeypatch.setattr(progress, "time", clock)
    job = job_of(spec(sink={"kind": "parquet", "path": str(tmp_path / "out")}))
    counts = Counts()
    told = Progress(job, counts.snapshot, num_reads=1)
    now += 60.0
    told.write("running", counts.snapshot())
    assert told.moved == 1_000.0
    done: dict[str, Any] = {"rows": 0, what: 500}
    counts.add(Report("read", rejected=0, filtered=0, seconds=0.0, **done))
    told.write("running", counts.snapshot())
    assert told.moved == 1_060.0
