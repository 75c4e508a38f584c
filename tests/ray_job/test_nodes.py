"""How a job waits for nodes that an autoscaler is to add."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.errors import InvalidSpec, RunStopped
from tasks.ray_job import nodes
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


def nothing() -> None:
    """What a job does meanwhile that nobody stops."""


def stopped() -> None:
    """What ends one."""
    raise RunStopped("stopped")


def wait(
    seen: Iterator[Any], monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None] = nothing
) -> None:
    """Wait for a place for a replica with a GPU, where one look after another shows a node."""
    monkeypatch.setattr(nodes, "nodes_now", lambda: [next(seen)])
    nodes.await_room(job_of(spec(cluster=WAITS, resources={"num_gpus": 1})), meanwhile)


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
    with pytest.raises(InvalidSpec, match=r"GPUs are asked for.* \(after 60 s of waiting"):
        wait(iter([SMALL, SMALL]), monkeypatch)
    assert asked[2:] == [BUNDLES, []]
