"""Which of a job's four tasks turns red, and that one does; without a job and without Prefect."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks import stages
from tasks.attempt import Attempt
from tasks.errors import NoProgress, Unreachable
from tasks.job_look import Look
from tasks.ray_job.counts import STAGES
from tasks.stages import follow_stage
from tests.flows.conftest import spec_of


@pytest.fixture(autouse=True)
def not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server has to be there."""
    for name in ("create_progress_artifact", "update_progress_artifact"):
        monkeypatch.setattr(stages, name, lambda *_, **__: None)


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


def progress(**states: str) -> dict[str, Any]:
    """What a job says while nothing moves; stages that are not named are done."""
    counts = {"rows": 10, "started": 1.0, "updated": 2.0, "total": 20}
    counts |= {"rejected": 0, "filtered": 0}
    each = {stage: {**counts, "state": states.get(stage, "done")} for stage in STAGES}
    said = {"state": "running", "works_at": None, "waits_for": "a replica", "at": 2.0}
    return {**said, "stages": each}


@pytest.mark.parametrize(
    ("waits_for", "infer"),
    [
        (None, "at work on its first rows"),
        ("1 replica of infer to load the model", "waits for 1 replica of infer to load the model"),
    ],
)
def test_a_stage_whose_first_rows_take_long_does_not_look_stuck(
    waits_for: str | None, infer: str
) -> None:
    said = progress(infer="waiting", write="waiting") | {"waits_for": waits_for}
    for stage in STAGES[2:]:
        said["stages"][stage] |= {"rows": 0, "parents": 0, "started": None, "updated": None}
    told = {stage: stages.summary(Look(said), stage) for stage in STAGES[1:]}
    assert told == {"preprocess": "10 rows, 10 rows/s", "infer": infer, "write": "waiting"}
    reads_again = progress(read="running", infer="waiting", write="waiting") | {"waits_for": None}
    reads_again["stages"]["read"] |= {"rows": 0, "passed_over": 12_000}
    said_of_read = stages.summary(Look(reads_again), "read")
    assert said_of_read == "0 rows, 0 rows/s, 12,000 passed over"
    unwritten = progress(infer="running", write="waiting")
    unwritten["stages"]["write"] |= {"rows": 0, "parents": 0, "started": None}
    assert stages.summary(Look(unwritten), "write") == "waiting", "it gathers rows for a file"
    without_steps = progress(read="running", preprocess="waiting", infer="running")
    without_steps["stages"]["preprocess"] |= {"rows": 0, "parents": 0, "started": None}
    assert stages.summary(Look(without_steps), "preprocess") == "nothing to do"
    unread = progress(**dict.fromkeys(STAGES, "waiting"))
    for counts in unread["stages"].values():
        counts |= {"rows": 0, "parents": 0, "started": None}
    assert {stages.summary(Look(unread), stage) for stage in STAGES} == {"waiting"}


@pytest.mark.parametrize(
    ("says", "infer"),
    [
        ({"waits_for": None}, "1 s left"),
        ({"waits_for": "a place for 1 replica"}, "waits for a place for 1 replica"),
        ({"waits_for": None, "at": 61.0}, "1 s left"),
        ({"waits_for": None, "at": 302.0}, "no row for 5.0 minutes"),
    ],
)
def test_a_stage_that_gets_no_further_does_not_look_as_if_it_did(
    says: dict[str, Any], infer: str
) -> None:
    """As where its node is lost, or a call of the model hangs."""
    said = progress(infer="running", write="running") | {"works_at": "infer"} | says
    told = {stage: stages.summary(Look(said), stage) for stage in STAGES[1:]}
    assert told == {
        "preprocess": "10 rows, 10 rows/s",
        "infer": f"10 rows, 10 rows/s, {infer}",
        "write": "10 rows, 10 rows/s, 1 s left",
    }


def test_writers_that_gather_rows_for_a_file_are_not_said_to_stand_still() -> None:
    said = progress(write="running") | {"waits_for": None, "at": 302.0}
    assert stages.summary(Look(said), "write") == "10 rows, 10 rows/s, 1 s left"


@pytest.mark.parametrize("is_told", [True, False], ids=["failed", "stopped"])
def test_a_stage_of_a_job_that_is_over_has_no_time_left(is_told: bool) -> None:
    said = progress(preprocess="running", infer="running", write="waiting")
    said["stages"]["write"] |= {"rows": 0, "started": None}
    look = Look(said, {"error": {"class": "StageFailed"}} if is_told else None)
    told = {stage: stages.summary(look, stage, is_over=not is_told) for stage in STAGES}
    assert told == {
        "read": "10 rows, 10 rows/s",
        "preprocess": "10 rows, 10 rows/s, stopped",
        "infer": "10 rows, 10 rows/s, stopped",
        "write": "not begun",
    }
    queued = Look({**said, "state": "queued", "waits_for": "nodes"})
    assert stages.summary(queued, "write") == "waits for nodes"
    assert stages.summary(queued, "write", is_over=True) == "not begun"


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
        monkeypatch.setattr(stages, name, show)
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
    monkeypatch.setattr(stages, "create_progress_artifact", lambda *_, **__: has_ended.wait(20))
    monkeypatch.setattr(stages, "LAST_UPDATE_SECONDS", 0.1)
    running: Any = SimpleNamespace(where="there", stop=lambda: None)
    following = Scripted(job_of(tmp_path), cluster=SimpleNamespace(), running=running)
    following.said = iter([progress(infer="running"), progress()])
    begun = time.monotonic()
    assert follow_stage.fn("infer", following).is_completed()
    assert time.monotonic() - begun < 10
    has_ended.set()
