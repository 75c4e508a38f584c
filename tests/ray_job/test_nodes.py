"""How a job waits for nodes that an autoscaler is to add, and for what each says of itself."""

import errno
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.errors import InputNotFound, InvalidSpec, RunStopped, Unreachable
from tasks.kinds.clusters import RayJobsCluster
from tasks.plan import make_plan
from tasks.ray_job import nodes
from tasks.ray_job.job import Job
from tasks.run import left_to_do, next_attempt
from tests.flows.conftest import numbers as numbers  # a fixture
from tests.flows.conftest import spec_of
from tests.ray_job.test_own_machine import job_of, spec

SMALL, LARGE = {"CPU": 2.0}, {"CPU": 2.0, "GPU": 1.0}
WAITS = {"kind": "ray_jobs", "address": "http://127.0.0.1:9", "wait_for_nodes_seconds": 60}
BUNDLES = [{"CPU": 1.0, "GPU": 1.0}, {"CPU": 1.0}]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[dict[str, float]]]:
    """What the autoscaler was asked for; no time passes."""
    asked: list[list[dict[str, float]]] = []
    monkeypatch.setattr(nodes, "ask_autoscaler", asked.append)
    monkeypatch.setattr(nodes, "LOOK_EVERY_SECONDS", 0.0)
    return asked


def nothing(waits_for: str) -> None:
    """What a job does meanwhile that nobody stops."""


def stopped(waits_for: str) -> None:
    """What ends one."""
    raise RunStopped("stopped")


def wait(
    seen: Iterator[Any], monkeypatch: pytest.MonkeyPatch, tell: Callable[[str], None] = nothing
) -> None:
    """Wait for a place for a replica with a GPU, where one look after another shows a node."""
    monkeypatch.setattr(nodes, "nodes_now", lambda: [next(seen)])
    nodes.await_room(job_of(spec(cluster=WAITS, resources={"num_gpus": 1})), tell)


def test_what_is_there_is_not_asked_for(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    wait(iter([LARGE]), monkeypatch)
    assert asked == []


def test_what_has_come_is_no_longer_asked_for(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    wait(iter([SMALL, SMALL, LARGE]), monkeypatch)
    assert asked == [BUNDLES, BUNDLES, []]


def test_what_nobody_waits_for_any_more_is_not_asked_for(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RunStopped):
        wait(iter([SMALL, SMALL]), monkeypatch, stopped)
    assert asked == [BUNDLES, []]
    clock = iter([0.0, 59.0, 60.0])
    patient = SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda seconds: None)
    monkeypatch.setattr(nodes, "time", patient)
    with pytest.raises(InvalidSpec, match=r"GPUs are requested.* \(after 60 s of waiting"):
        wait(iter([SMALL, SMALL]), monkeypatch)
    assert asked[2:] == [BUNDLES, []]


@pytest.mark.usefixtures("asked")
def test_what_is_waited_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    wait(iter([SMALL, SMALL, LARGE]), monkeypatch, told.append)
    assert len(told) == 2
    assert told[0].startswith(
        "nodes, 60 s at most: resources.num_gpus: 1.0 GPUs are requested, but"
    )


def test_nodes_of_a_cluster_that_was_replaced_are_waited_for(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers before all of them are there."""
    at_once = {**WAITS, "wait_for_nodes_seconds": 0}
    job, seen = job_of(spec(cluster=at_once, resources={"num_gpus": 1})), [SMALL, LARGE, SMALL]
    monkeypatch.setattr(nodes, "nodes_now", lambda: [seen.pop(0)])
    nodes.await_room(replace(job, attempt=2), nothing)
    assert asked == [BUNDLES, []]
    with pytest.raises(InvalidSpec, match="GPUs are requested"):
        nodes.await_room(job, nothing)
    assert seen == []


def test_what_a_killed_driver_has_asked_for_is_asked_for_no_more(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(spec(cluster=WAITS, resources={"num_gpus": 1}))
    monkeypatch.setattr(nodes, "nodes_now", lambda: [LARGE])
    nodes.await_room(replace(job, attempt=2), nothing)
    assert asked == [[]]


class Probes:
    """Stands for `ray` and for the module `time`: nodes whose probes take so many looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
        import ray

        self.exceptions = ray.exceptions
        self.now, self.left = 0.0, looks
        monkeypatch.setattr(nodes, "ray", self)
        monkeypatch.setattr(nodes, "time", self)
        probe = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda *_: "found"))
        monkeypatch.setattr(nodes, "probe", probe)

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "NodeID": "ab" * 28, "NodeManagerAddress": "10.0.0.7"}]

    def wait(self, found: list[str], timeout: float) -> tuple[list[str], list[str]]:
        self.now, self.left = self.now + timeout, self.left - 1
        return (found, []) if self.left < 0 else ([], found)

    def get(self, found: str) -> None:
        assert self.left < 0, "nobody waits without saying so"

    def monotonic(self) -> float:
        return self.now


def test_a_node_that_takes_its_time_is_waited_for_aloud(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    Probes(monkeypatch, looks=3)
    nodes.check_nodes(job_of(spec(cluster=WAITS)), told.append)
    assert told == ["node 10.0.0.7 to say that it can do the job, 120 s at most"] * 3


@pytest.mark.parametrize(
    ("pip", "error", "why"),
    [
        ([], Unreachable, r"within 120 s: it may be overloaded, or it cannot reach the storage"),
        (["left-pad"], InvalidSpec, r"within 900 s: perhaps it cannot set up environment\.pip"),
    ],
)
def test_a_node_that_never_answers(
    pip: list[str], error: type[Exception], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Probes(monkeypatch, looks=1_000_000)
    job = job_of(spec(cluster=WAITS, environment={"pip": pip}))
    with pytest.raises(error, match=rf"node 10\.0\.0\.7: did not answer {why}"):
        nodes.check_nodes(job, nothing)


def test_a_node_that_cannot_install_may_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The head's could: the driver runs there, in the same environment."""
    probes = Probes(monkeypatch, looks=0)

    def fail(found: str) -> None:
        raise probes.exceptions.RuntimeEnvSetupError("pip: no route to the index")

    monkeypatch.setattr(probes, "get", fail)
    job = job_of(spec(cluster=WAITS, environment={"pip": ["left-pad"]}))
    with pytest.raises(Unreachable, match=r"(?s)7: cannot set up environment\.pip.* no route"):
        nodes.check_nodes(job, nothing)


SICK = "ab" * 28


@pytest.mark.parametrize(
    ("others", "named"), [([None], SICK), ([Unreachable("nor from here")], None), ([], None)]
)
def test_a_sick_node_is_named_where_others_can_do_the_job(
    others: list[Any], named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = dict(enumerate([Unreachable("node 10.0.0.7: no route to the storage"), *others]))
    ids = [SICK, "cd" * 28][: len(found)]
    asked = iter(found)
    probes = Probes(monkeypatch, looks=0)
    alive = [{"Alive": True, "NodeID": each, "NodeManagerAddress": each} for each in ids]
    monkeypatch.setattr(probes, "nodes", lambda: alive)
    monkeypatch.setattr(probes, "wait", lambda refs, **_: (refs, []))
    monkeypatch.setattr(probes, "get", found.__getitem__)
    options = SimpleNamespace(remote=lambda *_: next(asked))
    monkeypatch.setattr(nodes, "probe", SimpleNamespace(options=lambda **_: options))
    with pytest.raises(Unreachable, match="no route to the storage") as raised:
        nodes.check_nodes(job_of(spec(cluster=WAITS)), nothing)
    assert raised.value.node == named


def test_a_node_says_what_it_lacks(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned, probe = make_plan(spec_of(numbers)), nodes.probe._function
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    own = nodes.own_digest()
    assert probe(job, own, "10.0.0.7") is None
    other = probe(job, "x", "10.0.0.7")
    assert isinstance(other, InvalidSpec)
    assert str(other).startswith("node 10.0.0.7: another version of this project is at ")

    def refuse(*_: object) -> None:
        raise PermissionError("read-only")

    with monkeypatch.context() as patch:
        patch.setattr(type(job.storage), "write", refuse)
        unwritten = probe(job, own, "10.0.0.7")
    assert isinstance(unwritten, InvalidSpec)
    assert str(unwritten) == "node 10.0.0.7: sink.path: cannot be written: read-only"
    shutil.rmtree(numbers)
    unread = probe(job, own, "10.0.0.7")
    assert isinstance(unread, InputNotFound)
    assert str(unread).startswith("node 10.0.0.7: source.path: ")


@pytest.mark.parametrize("is_sent", [True, False])
def test_of_code_that_a_node_lacks_it_is_told_what_may_have_kept_it(
    job: Job, is_sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies here, in the folder that was sent, and Ray heeds its .gitignore."""

    def lacks(_: object) -> None:
        raise InvalidSpec("model.class: 'mine:Model' needs the module 'mine', which is not")

    spec = job.spec
    if is_sent:
        elsewhere = RayJobsCluster(address="http://ray:8265")
        spec = spec.model_copy(update={"cluster": elsewhere})
    monkeypatch.setattr(nodes, "importable", lambda job: spec)
    monkeypatch.setattr(type(spec.model), "check", lacks)
    found = nodes.probe._function(job, nodes.own_digest(), "10.0.0.7")
    assert isinstance(found, InvalidSpec)
    told, _, why = str(found).partition("; ")
    assert told == "node 10.0.0.7: model.class: 'mine:Model' needs the module 'mine', which is not"
    assert ("files listed in a .gitignore" in why) is is_sent


@pytest.fixture
def job(numbers: Path) -> Job:
    """A job that is stored and has not begun."""
    planned = make_plan(spec_of(numbers))
    return next_attempt(planned, left_to_do(planned, tried=False)).job


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (ConnectionError("503 Slow Down"), Unreachable),
        (OSError(errno.EBUSY, "Please reduce your request rate"), Unreachable),
        (OSError(errno.EROFS, "Read-only file system"), InvalidSpec),
    ],
)
def test_a_storage_that_is_away_for_a_moment_is_no_mistake_of_the_spec(
    job: Job, said: OSError, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another attempt can help; the whole run ended for one such answer to one node."""

    def refuse(*_: object) -> None:
        raise said

    monkeypatch.setattr(type(job.storage), "write", refuse)
    found = nodes.probe._function(job, nodes.own_digest(), "10.0.0.7")
    assert type(found) is error
    assert str(found).startswith("node 10.0.0.7: sink.path: cannot be written: ")


def test_a_node_whose_folder_is_its_own_is_told(job: Job) -> None:
    """What is written there nobody finds."""
    folder = Path(job.spec.sink.path)
    Path(f"{folder}.state").rename(f"{folder}.elsewhere")
    found = nodes.probe._function(job, nodes.own_digest(), "10.0.0.7")
    assert isinstance(found, InvalidSpec)
    assert str(found).startswith(f"node 10.0.0.7: sink.path: '{folder}' is another folder there")
    assert not Path(f"{folder}.state").exists(), "nothing is left on the node"
