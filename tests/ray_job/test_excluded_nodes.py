"""Which nodes an attempt leaves out: those on which the one before could not set up a stage."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import InvalidSpec, StageFailed
from tasks.job_look import Look
from tasks.plan import make_plan
from tasks.ray_job import excluded_nodes, nodes
from tasks.ray_job.job import stored_job
from tasks.ray_job.result import explain
from tasks.run import left_to_do, new_job, next_attempt, nodes_left_out
from tests.flows.conftest import numbers as numbers  # a fixture
from tests.flows.conftest import spec_of
from tests.ray_job.test_nodes import LARGE, WAITS
from tests.ray_job.test_own_machine import job_of, spec


class Nodes:
    """Stands for `ray`: nodes of two cores and a GPU each."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"Alive": name != "dead", "NodeID": name, "NodeManagerAddress": f"10.0.0.{at}"}
            | {"Resources": LARGE}
            for at, name in enumerate(self.names)
        ]


@pytest.mark.parametrize(
    ("avoid", "replicas", "avoided", "said"),
    [
        ((), 2, (), ""),
        (("b",), 2, ("b",), "node 10.0.0.1: left out"),
        (("b", "dead", "gone"), 2, ("b",), "node 10.0.0.1: left out"),
        (("a", "b"), 1, ("a", "b"), "node 10.0.0.0, 10.0.0.1: left out"),
        (("b",), 3, (), "node 10.0.0.1: used again, since no other node has room"),
        (("a", "b", "c"), 1, (), "node 10.0.0.0, 10.0.0.1, 10.0.0.2: used again"),
    ],
)
def test_nodes_are_left_out_where_others_have_room(
    avoid: tuple[str, ...],
    replicas: int,
    avoided: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for module in (nodes, excluded_nodes):
        monkeypatch.setattr(module, "ray", Nodes("a", "b", "c", "dead"))
    asked = {"num_gpus": 1, "num_cpus": 0.5, "min_replicas": replicas}
    job = excluded_nodes.leaving_out(
        replace(job_of(spec(cluster=WAITS, resources=asked)), avoid=avoid)
    )
    assert job.avoid == avoided
    assert capsys.readouterr().out.startswith(said)
    selector = {"ray.io/node-id": f"!in({','.join(avoided)})"} if avoided else None
    assert excluded_nodes.elsewhere(job) == selector


def test_what_fails_on_a_node_is_known_to_the_next_attempt(numbers: Path) -> None:
    planned = make_plan(spec_of(numbers))
    first = next_attempt(planned, left_to_do(planned, tried=False))
    error = StageFailed("no driver")
    error.node = "a"
    for result, avoid in (
        (None, ()),
        ({"state": "succeeded", "error": None}, ()),
        ({"state": "failed", "error": {"class": "JobLost", "message": "gone"}}, ()),
        ({"state": "failed", "error": explain(error)}, ("a",)),
    ):
        first.last = Look(result=result)
        assert nodes_left_out(first) == avoid
    first.job = replace(first.job, avoid=("b", "a"))
    assert nodes_left_out(first) == ("b", "a")
    gap = left_to_do(planned, tried=True)
    job = new_job(planned, gap, 2, nodes_left_out(first))
    assert stored_job(job.storage, f"{job.folder}/job.json") == job
    assert nodes_left_out(None) == ()


def test_what_is_wrong_on_one_node_is_tried_on_others() -> None:
    """Of nothing else is it known that it is no fault of the spec."""
    error = InvalidSpec("environment.pip: no module named x")
    excluded_nodes.raise_of_node(error)
    error.node = "a"
    with pytest.raises(StageFailed, match="on a node, unlike others: environment") as caught:
        excluded_nodes.raise_of_node(error)
    assert explain(caught.value)["node"] == "a"
