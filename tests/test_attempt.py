"""Following an attempt: signs are left in time, and silence is borne for a time."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks import attempt
from tasks.attempt import POLL_SECONDS, SLOW_SECONDS, Attempt
from tasks.clusters.ray_api_errors import NotFoundError
from tasks.clusters.ray_jobs import RayJob
from tasks.errors import RunStopped, StageFailed, Unreachable
from tasks.lease import SILENT_SECONDS
from tasks.protocol.storage import open_storage
from tasks.ray_job.result import failure
from tasks.timeouts import Deadline
from tests.flows.conftest import spec_of

CLUSTER = "it waits for its cluster to take the job"


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

    def stat(self, path: str) -> None:
        """Nobody has stopped the job."""


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
    names = {"followed_file": "followed.json", "stopped_file": "stopped"}
    job: Any = SimpleNamespace(spec=spec, name_of_run="run", storage=signs, **names)
    following, running = Attempt(job, cluster=SimpleNamespace()), SimpleNamespace()
    for _ in range(round(3 * 60 / POLL_SECONDS[-1])):
        following.leave_mark(running)
        signs.now += following.poll_seconds
    gaps = [later - sooner for sooner, later in pairwise(signs.left)]
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
    names = {f"{name}_file": name for name in ("result", "progress", "followed", "stopped")}
    job: Any = SimpleNamespace(spec=spec, name_of_run="run", storage=silent, **names)
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


@pytest.mark.parametrize("moves", [True, False])
def test_a_cluster_that_says_nothing_for_a_minute_has_not_lost_its_job(
    moves: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = Silent()
    following = follow(silent, tmp_path, monkeypatch)

    def hangs() -> None:
        silent.now += 60  # as a dashboard that has too much to do, until the request is given up

    def progress(path: str) -> bytes:
        if path != "progress":
            raise FileNotFoundError(path)
        return json.dumps({"at": silent.now // 2 if moves else 0}).encode()

    monkeypatch.setattr(silent, "read", progress)
    monkeypatch.setattr(silent, "sleep", lambda seconds: None, raising=False)
    monkeypatch.setattr(attempt, "lost", lambda *_: {"error": {"message": "is gone"}})
    monkeypatch.setattr(attempt, "as_stopped", lambda job, result: result)
    following.look()
    silent.now += 1
    monkeypatch.setattr(following.running, "is_alive", hangs)
    found = following.look().result
    assert (found is None) == moves
    assert moves or "is gone" in json.dumps(found)


def test_a_storage_that_never_answers_ends_the_following(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = Silent()
    following = follow(silent, tmp_path, monkeypatch)
    said: list[tuple[float, str]] = []
    following.warn = lambda line: said.append((silent.now, line))
    for _ in range(60):
        silent.now += 1.0
        following.look()
    ((at, line),) = said  # once, and not of what passes in a moment
    assert at == 1_011.0
    assert line.startswith("sink.path: the storage does not answer")
    assert line.endswith("no route; trying for at most 60 s")
    silent.now += 1.0
    with pytest.raises(
        Unreachable, match=r"sink\.path: the storage does not answer, or .* expired: no route"
    ):
        following.look()


def following_on_disk(folder: Path) -> tuple[Attempt, list[str]]:
    """An attempt whose job lives, with its files in a folder; and what is done to the job."""
    names = {f"{name}_file": str(folder / name) for name in ("progress", "followed", "stopped")}
    result, storage = str(folder / "result"), open_storage(str(folder))[0]
    job: Any = SimpleNamespace(
        spec=spec_of(folder),
        name_of_run="run",
        attempt=1,
        storage=storage,
        result_file=result,
        **names,
    )
    done: list[str] = []
    running: Any = SimpleNamespace(
        is_alive=lambda: True, log=lambda: "", stop=lambda: done.append("stopped")
    )
    return Attempt(job, cluster=SimpleNamespace(), running=running), done


@pytest.mark.parametrize("somebody_stopped_it", [True, False])
def test_what_a_job_raises_when_somebody_stops_it_is_not_tried_again(
    tmp_path: Path, somebody_stopped_it: bool
) -> None:
    following, _ = following_on_disk(tmp_path)
    if somebody_stopped_it:
        Path(following.job.stopped_file).touch()
    told = {"class": "StageFailed", "message": "the code ended its process (sys.exit(15))"}
    Path(following.job.result_file).write_text(json.dumps({"state": "failed", "error": told}))
    error = failure(following.look().result or {})
    assert isinstance(error, RunStopped if somebody_stopped_it else StageFailed)
    assert error.can_retry is not somebody_stopped_it


def test_what_went_well_stays_so_though_somebody_stopped_it(tmp_path: Path) -> None:
    following, _ = following_on_disk(tmp_path)
    Path(following.job.stopped_file).touch()
    Path(following.job.result_file).write_text(json.dumps({"state": "succeeded", "error": None}))
    assert following.look().result == {"state": "succeeded", "error": None}


def test_who_follows_a_job_ends_it_for_who_could_only_say_so(tmp_path: Path) -> None:
    following, done = following_on_disk(tmp_path)
    following.look()
    assert done == []
    Path(following.job.stopped_file).touch()
    following.looked_at = following.marked_at = 0.0  # some seconds later
    following.look()
    assert done == ["stopped"]


def starting(tmp_path: Any, start: Callable[[Any], Any]) -> Attempt:
    """An attempt whose job is not there yet; `start` starts it."""
    job: Any = SimpleNamespace(
        spec=spec_of(tmp_path),
        name_of_run="run",
        attempt=1,
        stopped_file="stopped",
        storage=SimpleNamespace(stat=lambda path: None),
    )
    cluster: Any = SimpleNamespace(attach=lambda job: None, start=start)
    return Attempt(job, cluster, tell=lambda line: None)


def test_an_attempt_that_is_stopped_while_its_cluster_is_away_starts_nothing(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, released = list[int](), list[str]()
    monkeypatch.setattr(attempt, "release", lambda cluster, run_id: released.append(run_id))

    def start(_: Any) -> Any:
        tried.append(1)
        following.stop()
        raise Unreachable("no reply")

    following = starting(tmp_path, start)
    with pytest.raises(RunStopped):
        following.ensure_started()
    assert tried == [1]
    assert released == ["run"], "a cluster that was being made for it"


def test_a_run_that_somebody_stops_while_its_cluster_is_away_starts_nothing(
    tmp_path: Path,
) -> None:
    """Who stops it finds no job, and can only leave word."""
    following, _ = following_on_disk(tmp_path)
    following.running, tried = None, list[int]()
    following.unreachable_seconds = 5.0
    mark = Path(following.job.stopped_file)

    def start(_: Any) -> Any:
        tried.append(1)
        mark.touch()
        raise Unreachable("no reply")

    following.cluster = SimpleNamespace(attach=lambda job: None, start=start)
    with pytest.raises(RunStopped):
        following.ensure_started()
    assert tried == [1]


def test_a_run_that_somebody_stops_before_it_asks_for_its_job_starts_nothing(
    tmp_path: Path,
) -> None:
    """As while Prefect starts the first stage's task: the job is there to be seen, and told."""
    following, _ = following_on_disk(tmp_path)
    following.running = None
    tried = list[int]()
    following.cluster = SimpleNamespace(attach=lambda job: None, start=tried.append)
    Path(following.job.stopped_file).touch()
    with pytest.raises(RunStopped):
        following.ensure_started()
    assert not tried


def test_a_job_that_starts_when_nobody_waits_any_more_is_stopped(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[int] = []
    running = SimpleNamespace(where="there", stop=lambda: stopped.append(1))

    def start(_: Any) -> Any:
        following.stop()
        return running

    following, released = starting(tmp_path, start), list[str]()
    monkeypatch.setattr(attempt, "release", lambda cluster, run_id: released.append(run_id))
    following.ensure_started()
    assert (stopped, released) == ([1], ["run"])


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
    for timeouts, limit in (({}, 600.0), ({"no_progress_seconds": 42}, 42.0)):
        changes = {"environment": {"pip": pip}, "timeouts": timeouts}
        spec = spec_of(tmp_path, cluster={"kind": "kuberay"}, **changes)
        job: Any = SimpleNamespace(spec=spec)
        stall = Attempt(job, cluster=SimpleNamespace()).stall
        assert (stall.limit_seconds, stall.first_word_seconds) == (limit, first_word)


def test_who_works_on_a_run_says_so_before_others_take_it_for_gone(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    following, _ = following_on_disk(tmp_path)
    clock, held = Signs(), list[float]()
    monkeypatch.setattr(attempt, "time", clock)
    following.hold = lambda: held.append(clock.now)
    for _ in range(300):
        clock.now += 1.0
        following.look()
    gaps = [later - sooner for sooner, later in pairwise(held)]
    assert held[0] == 1_001.0
    assert max(gaps) <= SILENT_SECONDS / 3


def test_a_storage_that_is_away_when_a_job_is_to_start_is_waited_for(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, refused = SimpleNamespace(where="there"), iter([True, True, False])
    following = starting(tmp_path, lambda _: running)

    def stat(path: str) -> None:
        if next(refused):
            raise ConnectionError("no route")

    monkeypatch.setattr(following.job.storage, "stat", stat)
    said: list[str] = []
    following.warn = said.append

    def pause(seconds: float) -> None:
        following.begun -= SLOW_SECONDS
        following.say_if_slow()  # nobody has asked the cluster yet

    over: Any = SimpleNamespace(is_set=lambda: False, wait=pause)
    following.stopped = over
    assert following.ensure_started() is running
    (line,) = said
    assert line.endswith("no route; retrying for at most 600 s")


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("inline", f"{CLUSTER} (cluster.kind inline)"),
        (
            "kuberay",
            f"{CLUSTER} (cluster.kind kuberay, which is made for the run: "
            "cluster.ready_seconds 900)",
        ),
        (
            "",
            "Prefect lets no task of its stages begin, for example because of a concurrency "
            "limit on a tag that the flow was called with",
        ),
    ],
)
def test_what_a_job_waits_for_that_does_not_start_is_told(
    kind: str, told: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, after a while; a cluster that is made for a run takes minutes."""
    clock = Signs()
    monkeypatch.setattr(attempt, "time", clock)
    spec = spec_of(tmp_path, cluster={"kind": kind or "inline"})
    job: Any = SimpleNamespace(spec=spec, attempt=2, storage=clock, stopped_file="stopped")
    said: list[tuple[float, str]] = []
    following = Attempt(job, SimpleNamespace(), warn=lambda line: said.append((clock.now, line)))

    def wait(seconds: float) -> None:
        clock.now += seconds

    over: Any = SimpleNamespace(is_set=lambda: clock.now > 1_300.0, wait=wait)
    following.stopped, following.is_asked_for = over, bool(kind)
    following.await_stage("infer", Deadline(None))
    ((at, line),) = said
    assert 1_030.0 <= at <= 1_031.0
    assert line == f"attempt 2 has not started yet: {told}"


def test_word_for_a_job_that_no_task_may_start_yet_is_heeded(tmp_path: Path) -> None:
    """Nobody looks at it: below a limit of Prefect's the tasks may wait for hours."""
    following, _ = following_on_disk(tmp_path)
    following.running, following.heeded_at = None, -math.inf
    Path(following.job.stopped_file).touch()
    with pytest.raises(RunStopped, match="somebody stopped the job"):
        following.await_stage("infer", Deadline(None))


def test_no_sign_is_left_of_a_run_that_is_over(tmp_path: Path) -> None:
    """Whoever shows progress looks once more, when a preview is cleared away perhaps."""
    following, _ = following_on_disk(tmp_path)
    following.look()
    following.stop()
    Path(following.job.followed_file).unlink()
    following.looked_at = following.marked_at = 0.0  # some seconds later
    following.look()
    assert not Path(following.job.followed_file).exists()
