"""Which attempt comes next: the one that runs, or a new one."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tasks import run
from tasks.plan import make_plan
from tasks.ray_job.job import Job
from tests.reporting import classify_spec, make_inputs


@dataclass
class Lingering:
    """Stands for a cluster and the one job on it, which lives until it is stopped."""

    is_there: bool = True

    def attach(self, job: Job) -> "Lingering | None":
        return self if self.is_there else None

    def was_started(self, job: Job) -> bool:
        return True

    def stop(self) -> None:
        self.is_there = False


def test_a_job_that_lives_on_with_its_result_answers_for_no_later_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    cluster = Lingering()
    monkeypatch.setattr(run, "cluster_of", lambda spec: cluster)
    gap = run.left_to_do(planned, tried=False)
    first = run.next_attempt(planned, gap).job
    assert run.next_attempt(planned, gap).job.attempt == first.attempt == 1
    planned.storage.write(first.result_file, b"{}")
    assert run.next_attempt(planned, gap).job.attempt == 2
    assert not cluster.is_there
