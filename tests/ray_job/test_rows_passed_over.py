"""What a reader does that no batch shows: files that are finished, and rows that are done."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.plan import make_plan
from tasks.ray_job import opening, reading
from tasks.ray_job.counts import Report
from tasks.ray_job.job import Job
from tasks.ray_job.reading import read_share
from tasks.run import left_to_do, next_attempt
from tests.flows.conftest import spec_of
from tests.ray_job.test_reading import rows


def job_on(folder: Path, kind: str) -> Job:
    planned = make_plan(spec_of(folder, source={"kind": kind, "path": str(folder)}))
    return next_attempt(planned, left_to_do(planned, tried=False)).job


def test_a_reader_tells_of_rows_that_an_earlier_attempt_has_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large file that is read from its start again these take longer than a stall may."""
    monkeypatch.setattr(reading, "TELL_EVERY_SECONDS", 0.0)
    folder, told = tmp_path / "in", list[Report]()
    folder.mkdir()
    table = pa.table({"x": [*range(300)]})
    pq.write_table(table, folder / "a.parquet", row_group_size=100)
    job = job_on(folder, "parquet")
    (todo,) = opening.load_todo(job, 0, 1)
    monkeypatch.setattr(opening, "load_todo", lambda *_: [replace(todo, covered=rows(0, 250))])
    batches = read_share(job, 0, 1, told.append)
    first = next(batches)
    assert first.rows["x"].to_pylist() == [*range(250, 300)]
    passed_over = [each.passed_over for each in told if each.passed_over]
    assert sum(passed_over) == 250
    assert len(passed_over) > 1, "before there is a batch"
    assert not sum(len(each.rows) for each in batches)
    assert sum(each.passed_over for each in told) == 250


def test_small_files_are_told_of_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call for each of a million would keep whoever counts from anything else."""
    monkeypatch.setattr(reading, "TELL_EVERY_SECONDS", 1e9)
    folder, told = tmp_path / "in", list[Report]()
    folder.mkdir()
    for number in range(40):
        (folder / f"{number:02}.jsonl").write_text('{"x": 1}\n')
    job = job_on(folder, "jsonl")
    assert job.todo_rows is None
    assert sum(len(each.rows) for each in read_share(job, 0, 40, told.append)) == 40
    assert [each.size for each in told] == [job.todo_bytes]
