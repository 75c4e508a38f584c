"""How long is waited for what; a clock that only moves when somebody sleeps."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import timeouts
from tasks.errors import InvalidSpec, Unreachable
from tasks.ray_job.counts import STAGES
from tasks.timeouts import (
    MAX_BACKOFF_SECONDS,
    Deadline,
    Stall,
    backoff_seconds,
    storage_of_output,
    until_reachable,
)


@dataclass
class Clock:
    """Stands for the module `time`."""

    now: float = 1_000.0
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stopped = Clock()
    monkeypatch.setattr(timeouts, "time", stopped)
    return stopped


def answers_after(failures: int, error: Exception | None = None) -> Callable[[], str]:
    """A cluster that fails so often and then answers."""
    left = iter(range(failures))

    def ask() -> str:
        if next(left, None) is not None:
            raise error or Unreachable("nobody there")
        return "here"

    return ask


@given(st.integers(min_value=1, max_value=100_000))
def test_backoff_doubles_up_to_a_minute_and_spreads(attempt: int) -> None:
    longest = min(MAX_BACKOFF_SECONDS, 1 << (attempt - 1))
    assert longest / 2 <= backoff_seconds(attempt) <= longest


def test_runs_that_start_over_together_do_not_come_back_together() -> None:
    random.seed(1)
    assert len({round(backoff_seconds(7), 3) for _ in range(100)}) > 90


def test_an_answer_is_waited_for(clock: Clock) -> None:
    told = list[str]()
    assert until_reachable(answers_after(4), 600, told.append) == "here"
    assert [0.5, 1, 2, 4] <= clock.slept <= [1, 2, 4, 8]
    assert told == ["nobody there; retrying for at most 600 s"]


def test_who_answers_at_once_is_not_waited_for(clock: Clock) -> None:
    assert until_reachable(answers_after(0), 0, print) == "here"
    assert clock.slept == []


@pytest.mark.parametrize("seconds", [0.0, 10.0, 600.0])
def test_patience_has_an_end(clock: Clock, seconds: float) -> None:
    begun = clock.now
    with pytest.raises(Unreachable, match="nobody there"):
        until_reachable(answers_after(10_000), seconds, print)
    assert clock.now - begun == pytest.approx(seconds)


def test_other_errors_are_not_waited_out(clock: Clock) -> None:
    with pytest.raises(InvalidSpec):
        until_reachable(answers_after(1, InvalidSpec("wrong")), 600, print)
    assert clock.slept == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            OSError(28, "No space left on device", "/out/a"),
            "the disk is full, free some space: .*/out/a",
        ),
        (
            OSError(30, "Read-only file system", "/out/a"),
            "the disk is read-only, mount it writable",
        ),
        (
            OSError(
                "Generic LocalFileSystem error\n   \x1b[31m↳\x1b[0m Unable to copy data to file\n"
                "    \x1b[31m↳\x1b[0m No space left on device (os error 28)\n"
            ),
            "the disk is full, free some space: Generic LocalFileSystem error: Unable to copy data "
            r"to file: No space left on device \(os error 28\)$",
        ),
        (
            ConnectionError("no route"),
            "the storage does not answer, or its credentials .* no route",
        ),
    ],
)
def test_what_ails_the_outputs_storage_is_told(error: OSError, words: str) -> None:
    with pytest.raises(Unreachable, match=f"^sink.path: {words}"), storage_of_output():
        raise error


def test_a_deadline_passes(clock: Clock) -> None:
    deadline = Deadline(30.0, started=clock.now)
    assert deadline.seconds_left() == 30
    clock.sleep(29)
    assert deadline.seconds_left() == 1
    clock.sleep(100)
    assert deadline.seconds_left() == 0
    assert "timeouts.run_seconds 30;" in str(deadline.missed())


def test_without_a_deadline_time_is_not_counted() -> None:
    assert Deadline(None).seconds_left() is None


def progress(rows: int, state: str = "running") -> dict[str, Any]:
    """What a job says of itself."""
    return {
        "at": random.random(),
        "state": state,
        "stages": {"read": {"rows": 7}, "infer": {"rows": rows}},
    }


def test_a_row_that_moves_ends_a_stall(clock: Clock) -> None:
    stall = Stall(10, since=clock.now)
    for rows in range(5):
        clock.sleep(9)
        assert not stall.lasts(progress(rows))
    clock.sleep(9)
    assert not stall.lasts(progress(4))
    clock.sleep(2)
    assert stall.lasts(progress(4)), "what else changes is no progress"
    assert not stall.lasts(progress(5))


@pytest.mark.parametrize("what", ["passed_over", "size", "tasks"])
def test_what_is_read_without_a_row_ends_a_stall(clock: Clock, what: str) -> None:
    """Rows that are done, of a large file that is read again, or files that have none."""
    stall = Stall(10, since=clock.now)
    for done in range(5):
        clock.sleep(9)
        said = progress(0)
        said["stages"]["read"][what] = done
        assert not stall.lasts(said)
    clock.sleep(11)
    assert stall.lasts(said)


def test_a_job_that_waits_for_its_turn_does_not_stall(clock: Clock) -> None:
    stall = Stall(10, since=clock.now)
    for _ in range(3):
        clock.sleep(11)
        assert not stall.lasts(progress(0, "queued"))
    clock.sleep(11)
    assert stall.lasts(progress(0)), "from its turn on it has to move"


def test_a_job_that_says_nothing_stalls(clock: Clock) -> None:
    stall = Stall(10, since=clock.now)
    assert not stall.lasts(None)
    clock.sleep(11)
    assert stall.lasts(None)
    assert not stall.lasts(progress(0)), "its first word is a sign of life"
    assert "for 10 s (timeouts.no_progress_seconds); the job has reported nothing yet" in str(
        stall.error(None)
    )


def test_a_job_that_no_longer_says_that_it_waits_stalls(clock: Clock) -> None:
    stall, last = Stall(10, since=clock.now), progress(0, "queued")
    assert not stall.lasts(last)
    clock.sleep(11)
    assert stall.lasts(last), "it may have ended its wait, or be dead"
    assert not stall.lasts(progress(0, "queued"))


def test_a_job_may_install_its_packages_before_it_says_a_word(clock: Clock) -> None:
    stall = Stall(10, 30, since=clock.now)
    clock.sleep(29)
    assert not stall.lasts(None)
    clock.sleep(2)
    assert stall.lasts(None)
    assert "for 30 s (the time allowed for environment.pip); the job" in str(stall.error(None))
    assert not stall.lasts(progress(0))
    clock.sleep(11)
    assert stall.lasts(progress(0)), "from its first word on it has to move"


def test_a_job_may_load_its_model_before_it_moves(clock: Clock) -> None:
    """And its first rows then have as long as any: what is compiled is compiled with them."""
    stall = Stall(10, load_seconds=30, since=clock.now)
    loading = {"is_loading": True, "waits_for": "2 replicas of infer to load the model"}
    assert not stall.lasts({**progress(0), **loading})
    clock.sleep(29)
    assert not stall.lasts({**progress(0), **loading})
    assert not stall.lasts(progress(0))
    clock.sleep(9)
    assert not stall.lasts(progress(0))
    clock.sleep(2)
    assert stall.lasts(progress(0))
    assert not stall.lasts({**progress(0), **loading})
    clock.sleep(31)
    assert stall.lasts({**progress(0), **loading})
    stages = {stage: {"rows": 0, "state": "waiting"} for stage in STAGES}
    said = str(stall.error({**loading, "works_at": "infer", "stages": stages}))
    assert (
        "for 30 s (the time allowed for loading a model; allow more with "
        "timeouts.no_progress_seconds); waits for 2 replicas of infer to load the model"
    ) in said
