"""A check says at once who does not answer, and waits for what may take its time."""

import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem

from tasks import attempt, rehearsal, timeouts
from tasks.errors import NoProgress, Unreachable
from tasks.kinds.clusters import RayJobsCluster
from tasks.plan import make_plan
from tasks.ray_job.job import Job
from tasks.rehearsal import rehearse
from tasks.run_options import RunOptions
from tests.flows.conftest import numbers, spec_of

__all__ = ["numbers"]


def test_a_cluster_that_does_not_answer_is_not_waited_for(numbers: Path) -> None:
    planned = make_plan(spec_of(numbers))
    away = RayJobsCluster(address="http://127.0.0.1:9")
    elsewhere = replace(planned, spec=planned.spec.model_copy(update={"cluster": away}))
    begun = time.monotonic()
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9 does not answer"):
        rehearse(elsewhere)
    assert time.monotonic() - begun < planned.spec.timeouts.unreachable_seconds / 10
    assert list(Path(f"{planned.spec.sink.path}.state/runs").glob("check-*")) == []


@dataclass
class Slow:
    """Stands for a cluster and the one job on it, which says for so long that it waits."""

    waits_for_looks: int
    ends: bool
    job: Job | None = None
    where: str = "there"

    def attach(self, job: Job) -> None:
        return None

    def start(self, job: Job) -> "Slow":
        self.job = job
        return self

    def is_alive(self) -> bool:
        """Asked at every look; the job says something then."""
        assert self.job
        self.waits_for_looks -= 1
        if self.waits_for_looks >= 0:
            said = {"state": "queued", "at": -self.waits_for_looks, "waits_for": "nodes: a GPU"}
            body = json.dumps({**said, "stages": {}}).encode()
            self.job.storage.write(self.job.progress_file, body)
        elif self.ends:
            self.job.storage.write(self.job.result_file, b'{"state": "succeeded", "error": null}')
        return True

    def log(self) -> str:
        return ""

    def stop(self) -> None:
        """It ends with its test."""


@dataclass
class Clock:
    """Passes while somebody waits, and no faster on a busy machine."""

    now: float = field(default_factory=time.monotonic)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The one that whoever checks, follows a job and counts its silence goes by."""
    clock = Clock()
    for module in (rehearsal, attempt, timeouts):
        monkeypatch.setattr(module, "time", clock)
    return clock


def check_on(slow: Slow, numbers: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Check on such a cluster, where two seconds of silence are too long; what was told."""
    told: list[str] = []
    monkeypatch.setattr(rehearsal, "cluster_of", lambda cluster: slow)
    monkeypatch.setattr(rehearsal, "SILENT_SECONDS", 2.0)
    planned: Any = make_plan(spec_of(numbers), RunOptions(timed_inputs=("/in/[0-9]",)))
    rehearse(planned, told.append)
    return told


def test_a_check_whose_job_waits_and_says_so_goes_on(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    begun = clock.now
    slow = Slow(100, ends=True)
    told = check_on(slow, numbers, monkeypatch)
    assert clock.now - begun > 2 * rehearsal.SILENT_SECONDS
    assert slow.job
    assert slow.job.timed_inputs == ("/in/[0-9]",), "they stay at home, as in a run"
    assert told == ["the check waits for nodes: a GPU"]


@pytest.mark.usefixtures("clock")
def test_a_check_whose_job_falls_silent_says_what_it_waited_for(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoProgress, match=r"nothing for 2 s: it waited for nodes: a GPU; see there"):
        check_on(Slow(3, ends=False), numbers, monkeypatch)
    with pytest.raises(NoProgress, match="it has not started"):
        check_on(Slow(0, ends=False), numbers, monkeypatch)


@pytest.mark.usefixtures("clock")
def test_what_a_check_found_is_heard_though_its_files_cannot_be_removed(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(storage: LocalFileSystem, *given: Any, **named: Any) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(LocalFileSystem, "rm", refuse)
    with pytest.raises(NoProgress, match="it has not started"):
        check_on(Slow(0, ends=False), numbers, monkeypatch)
