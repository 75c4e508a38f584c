"""A job says how far it is: often at first, then often enough."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest

from tasks.ray_job import progress
from tasks.ray_job.counts import Counts
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
