"""Which Ray on this machine a local job joins: only one of ours that somebody has named."""

import os
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.clusters import own_ray
from tasks.clusters.choose import joined
from tasks.clusters.own_ray import own_installation, ray_at_hand
from tasks.errors import InvalidSpec
from tasks.kinds.clusters import InlineCluster, LocalCluster

HERE = "127.0.0.1:6399"


@dataclass
class Raylet:
    """As much of a process as is looked at."""

    uid: int = field(default_factory=os.getuid)
    path: str = str(own_installation() / "core" / "src" / "ray" / "raylet" / "raylet")

    def uids(self) -> Any:
        return SimpleNamespace(real=self.uid)

    def username(self) -> str:
        return "somebody"

    def exe(self) -> str:
        return self.path


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """RAY_ADDRESS names a Ray on this machine."""
    monkeypatch.setenv("RAY_ADDRESS", HERE)
    monkeypatch.setattr(own_ray, "raylet_of", lambda port: Raylet())
    return monkeypatch


def test_a_named_ray_of_ours_is_joined_where_the_spec_names_none(
    named: pytest.MonkeyPatch,
) -> None:
    assert joined(LocalCluster()) == LocalCluster(address=HERE)
    assert joined(LocalCluster(address="10.0.0.1:1")) == LocalCluster(address="10.0.0.1:1")
    assert joined(InlineCluster()) == InlineCluster()


@pytest.mark.parametrize("given", ["", "auto", "http://127.0.0.1:8265", "203.0.113.9:6379"])
def test_what_is_no_ray_on_this_machine_is_left_alone(
    given: str, named: pytest.MonkeyPatch
) -> None:
    named.setenv("RAY_ADDRESS", given)
    assert ray_at_hand() is None


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (None, "no Ray that runs here"),
        (Raylet(uid=os.getuid() + 1), "somebody's"),
        (Raylet(path="/opt/ray/raylet"), "/opt/ray/raylet, another installation"),
    ],
)
def test_a_strangers_ray_is_refused(
    found: Raylet | None, problem: str, named: pytest.MonkeyPatch
) -> None:
    named.setattr(own_ray, "raylet_of", lambda port: found)
    with pytest.raises(InvalidSpec, match=problem):
        joined(LocalCluster())


def test_nobody_listens_on_port_one() -> None:
    assert own_ray.raylet_of("1") is None
