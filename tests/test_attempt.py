"""Following an attempt: signs are left in time, and silence is borne for a time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tasks import attempt
from tasks.attempt import POLL_SECONDS, Attempt
from tasks.clusters.ray_api import NotFoundError
from tasks.clusters.ray_jobs import RayJob
from tasks.errors import RunStopped, Unreachable
from tests.flows.conftest import spec_of


@dataclass
class Signs:
    """Stands for the storage and for the module `time`: when which sign was left."""

    now: float = 1_000.0
    left: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def write(self, path: str, data: bytes) -> None:
        self.left.append(self.now)


@pytest.mark.parametrize(
    "orphan_seconds",
    [3.0, 15.0, 1800.0],
)
def test_signs_come_twice_as_often_as_they_are_missed(
    orphan_seconds: float, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    signs = Signs()
    monkeypatch.setattr(attempt, "time", signs)
    spec = spec_of(tmp_path, timeouts={"orphan_seconds": orphan_seconds})
    job: Any = SimpleNamespace(spec=spec, run_id="run", followed="followed.json", storage=signs)
    following = Attempt(job, cluster=SimpleNamespace())
    for _ in range(round(3 * 60 / POLL_SECONDS[-1])):
        following.leave_mark()
        signs.now += following.poll_seconds
    gaps = [later - sooner for sooner, later in zip(signs.left, signs.left[1:], strict=False)]
    assert max(gaps) <= orphan_seconds / 2


def test_a_job_is_looked_at_often_at_first_and_then_now_and_then(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    signs = Signs()
    monkeypatch.setattr(attempt, "time", signs)
    job: Any = SimpleNamespace(spec=spec_of(tmp_path))
    following = Attempt(job, cluster=SimpleNamespace())
    pauses = []
    for _ in range(120):
        pauses.append(following.poll_seconds)
        signs.now += pauses[-1]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == POLL_SECONDS
    assert sum(pauses[:100]) > 15, "a long job is not asked often"


class Silent(Signs):
    """A storage that does not answer, for as long as it is told."""

    is_silent = True

    def read(self, path: str) -> bytes:
        if self.is_silent:
            raise ConnectionError("no route")
        raise FileNotFoundError(path)


def follow(silent: Silent, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Attempt:
    """An attempt that is followed over that storage; its job lives."""
    monkeypatch.setattr(attempt, "time", silent)
    spec = spec_of(tmp_path, timeouts={"unreachable_seconds": 60})
    names = {"result": "result.json", "progress": "progress.json", "followed": "followed.json"}
    job: Any = SimpleNamespace(spec=spec, run_id="run", storage=silent, **names)
    running: Any = SimpleNamespace(is_alive=lambda: True, log=lambda: "")
    return Attempt(job, cluster=SimpleNamespace(), running=running)


def test_a_storage_that_answers_again_in_time_costs_nothing(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = Silent()
    following = follow(silent, tmp_path, monkeypatch)
    for _ in range(3):
        for seconds, silent.is_silent in ((30.0, True), (20.0, True), (1.0, False)):
            silent.now += seconds
            assert following.look().result is None


def test_a_storage_that_never_answers_ends_the_following(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = Silent()
    following = follow(silent, tmp_path, monkeypatch)
    for _ in range(60):
        silent.now += 1.0
        following.look()
    silent.now += 1.0
    with pytest.raises(
        Unreachable, match=r"sink\.path: the storage does not answer, or .* expired: no route"
    ):
        following.look()


def starting(tmp_path: Any, start: Callable[[Any], Any]) -> Attempt:
    """An attempt whose job is not there yet; `start` starts it."""
    job: Any = SimpleNamespace(
        spec=spec_of(tmp_path),
        run_id="run",
        attempt=1,
        stopped="stopped",
        storage=SimpleNamespace(delete=lambda path: None),
    )
    cluster: Any = SimpleNamespace(attach=lambda job: None, start=start)
    return Attempt(job, cluster, tell=lambda line: None)


def test_an_attempt_that_is_stopped_while_its_cluster_is_away_starts_nothing(
    tmp_path: Any,
) -> None:
    tried: list[int] = []

    def start(_: Any) -> Any:
        tried.append(1)
        following.stop()
        raise Unreachable("no reply")

    following = starting(tmp_path, start)
    with pytest.raises(RunStopped):
        following.ensure_started()
    assert tried == [1]


def test_a_job_that_starts_when_nobody_waits_any_more_is_stopped(tmp_path: Any) -> None:
    stopped: list[int] = []
    running = SimpleNamespace(where="there", stop=lambda: stopped.append(1))

    def start(_: Any) -> Any:
        following.stop()
        return running

    following = starting(tmp_path, start)
    following.ensure_started()
    assert stopped == [1]


@pytest.mark.parametrize("error", [NotFoundError(), Unreachable("gone")])
def test_a_job_that_a_new_cluster_does_not_know_has_no_log(error: Exception) -> None:
    def fail(submission_id: str) -> str:
        raise error

    job: Any = SimpleNamespace(id="run-1")
    api: Any = SimpleNamespace(log=fail)
    assert RayJob(api, job).log() == ""


@pytest.mark.parametrize(("pip", "first_word"), [([], 0.0), (["left-pad"], 900.0)])
def test_the_guard_against_a_stall_is_what_the_user_has_set(
    pip: list[str], first_word: float, tmp_path: Any
) -> None:
    spec = spec_of(tmp_path, cluster={"kind": "kuberay"}, environment={"pip": pip})
    job: Any = SimpleNamespace(spec=spec)
    stall = Attempt(job, cluster=SimpleNamespace()).stall
    assert (stall.limit_seconds, stall.first_word_seconds) == (600.0, first_word)
