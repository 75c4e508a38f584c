"""Which of a job's four tasks turns red, and that one does; without a job and without Prefect."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks import stage_artifacts
from tasks.attempt import Attempt
from tasks.errors import NoProgress, Unreachable
from tasks.job_look import Look
from tasks.ray_job.counts import STAGES
from tasks.stages import follow_stage
from tests.flows.conftest import spec_of
from tests.test_stage_summary import progress


@pytest.fixture(autouse=True)
def not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server has to be there."""
    for name in ("create_progress_artifact", "update_progress_artifact"):
        monkeypatch.setattr(stage_artifacts, name, lambda *_, **__: None)


def job_of(folder: Path) -> Any:
    """A job of which its storage has nothing."""
    storage = SimpleNamespace(stat=lambda path: None)
    names = {"run_id": "run", "attempt": 1, "stopped_file": "stopped"}
    return SimpleNamespace(spec=spec_of(folder), stages=STAGES, storage=storage, **names)


def test_of_a_job_that_does_not_start_one_stage_says_why(tmp_path: Path) -> None:
    def attach(_: Any) -> Any:
        raise Unreachable("cluster.address: nobody answers")

    cluster: Any = SimpleNamespace(attach=attach)
    following = Attempt(job_of(tmp_path), cluster, tell=lambda line: None)
    following.unreachable_seconds = 0.0
    with pytest.raises(Unreachable, match="nobody answers"):
        follow_stage.fn("read", following)
    others = [follow_stage.fn(stage, following) for stage in STAGES[1:]]
    assert {(each.name, each.message) for each in others} == {
        ("Cancelled", "the job did not start")
    }


class Scripted(Attempt):
    """An attempt whose job says one thing after the other."""

    said: Iterator[dict[str, Any]]

    def look(self) -> Look:
        return Look(next(self.said))


def test_a_stage_whose_run_is_stopped_says_so_in_prefect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, hears = list[str](), threading.Event()

    def show(*_: Any, description: str, **__: Any) -> str:
        shown.append(description)
        if description.endswith("stopped"):
            hears.set()
        return "id"

    for name in ("create_progress_artifact", "update_progress_artifact"):
        monkeypatch.setattr(stage_artifacts, name, show)
    running: Any = SimpleNamespace(where="there", stop=lambda: None)
    following = Scripted(job_of(tmp_path), cluster=SimpleNamespace(), running=running)
    following.last = Look(progress(infer="running", write="running"))
    following.stop()
    state = follow_stage.fn("infer", following)
    assert (state.name, hears.wait(20)) == ("Cancelled", True)
    assert shown == ["10 rows, 10 rows/s, stopped"]


def test_a_stall_of_a_stage_whose_task_is_done_is_raised_all_the_same(tmp_path: Path) -> None:
    """A node is lost, and what it held is predicted once more."""
    running: Any = SimpleNamespace(where="there", stop=lambda: None)
    following = Scripted(job_of(tmp_path), cluster=SimpleNamespace(), running=running)
    following.said = iter([progress(write="running")])
    assert follow_stage.fn("infer", following).is_completed()
    following.stall.limit_seconds = 0.0
    again = progress(infer="running", write="running")
    following.said = iter([again] * 5)
    with pytest.raises(NoProgress, match=r"stage infer failed.*waits for a replica"):
        follow_stage.fn("write", following)


def test_a_stall_is_raised_by_the_stage_that_is_stuck(tmp_path: Path) -> None:
    running: Any = SimpleNamespace(where="there", stop=lambda: None)
    following = Scripted(job_of(tmp_path), cluster=SimpleNamespace(), running=running)
    following.stall.limit_seconds = 0.0
    following.said = iter([progress(infer="running", write="running")] * 5)
    with pytest.raises(StopIteration):
        follow_stage.fn("write", following)
    following.said = iter([progress(infer="running", write="running")] * 5)
    assert not following.has_stalled
    with pytest.raises(NoProgress, match="stage infer failed"):
        follow_stage.fn("infer", following)
    assert following.has_stalled


def test_a_prefect_server_that_does_not_answer_holds_up_nobody_who_follows_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile nobody would see the job's end, or say that somebody follows it."""
    has_ended = threading.Event()
    monkeypatch.setattr(
        stage_artifacts, "create_progress_artifact", lambda *_, **__: has_ended.wait(20)
    )
    monkeypatch.setattr(stage_artifacts, "LAST_UPDATE_SECONDS", 0.1)
    running: Any = SimpleNamespace(where="there", stop=lambda: None)
    following = Scripted(job_of(tmp_path), cluster=SimpleNamespace(), running=running)
    following.said = iter([progress(infer="running"), progress()])
    begun = time.monotonic()
    assert follow_stage.fn("infer", following).is_completed()
    assert time.monotonic() - begun < 10
    has_ended.set()
