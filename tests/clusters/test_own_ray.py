"""Which Ray on this machine a local job joins: only one of ours that somebody has named."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.clusters import own_ray
from tasks.clusters.driver import driver_environment
from tasks.clusters.own_ray import (
    ON_LOOPBACK,
    joined,
    own_installation,
    ray_at_hand,
    raylet_of,
    reached,
)
from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.clusters import AnyCluster, InlineCluster, LocalCluster, RayJobsCluster
from tasks.planning.preflight import check_cluster
from tests.flows.conftest import spec_of
from tests.listeners import listeners
from tests.ray_driver import answer_of

HERE = "127.0.0.1:6399"
KNOWN_TASKS = """
import sys, time
import ray
from ray._private.state import state

ray.init(address=sys.argv[1], logging_level="ERROR")
nothing = ray.remote(lambda: None)
ray.get([nothing.remote() for _ in range(1100)])
known = state._connect_and_get_accessor()
until = time.monotonic() + 60
while (found := len(known.get_task_events())) < 1000 and time.monotonic() < until:
    time.sleep(0.1)
time.sleep(1.5)  # what workers have done they tell each second
answer(len(known.get_task_events()))
"""


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


@pytest.mark.parametrize(
    ("cluster", "stays_here"),
    [
        (LocalCluster(), True),
        (LocalCluster(address="127.0.0.1:6379"), True),
        (LocalCluster(address="[::1]:6379"), True),
        (LocalCluster(address="ray://localhost:10001"), True),
        (LocalCluster(address="10.0.0.1:6379"), False),
        (LocalCluster(address="auto"), False),
        (RayJobsCluster(address="http://127.0.0.1:8265"), False),
        (InlineCluster(), False),
    ],
)
def test_a_driver_keeps_to_loopback_where_its_ray_is_there(
    cluster: AnyCluster, stays_here: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray elsewhere must be able to reach it."""
    for name in ON_LOOPBACK:  # as a test before this one may have left it
        monkeypatch.delenv(name, raising=False)
    spec = spec_of(tmp_path).model_copy(update={"cluster": cluster})
    assert (ON_LOOPBACK.items() <= driver_environment(spec).items()) == stays_here


@pytest.mark.ray
def test_other_machines_cannot_reach_the_ray_that_tests_share(ray_address: str) -> None:
    """It asks nobody for a token."""
    raylet = raylet_of(ray_address.rpartition(":")[2])
    assert raylet
    head = raylet.parent()
    assert head
    near, far = listeners(head)
    assert len(near) > len(["the head", "its node"])
    assert not far


@pytest.mark.parametrize("given", ["", "auto", "http://127.0.0.1:8265", "203.0.113.9:6379"])
def test_what_is_no_ray_on_this_machine_is_left_alone(
    given: str, named: pytest.MonkeyPatch
) -> None:
    named.setenv("RAY_ADDRESS", given)
    assert ray_at_hand() is None


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (None, "not a Ray that runs here"),
        (Raylet(uid=os.getuid() + 1), "belongs to somebody: unset"),
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


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_an_address_is_that_of_somebody_who_listens(host: str) -> None:
    if host == "[::1]" and not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    with listening("::1" if host == "[::1]" else "127.0.0.1") as port:
        there = LocalCluster(address=f"{host}:{port}")
        assert reached(there) == there
    with pytest.raises(Unreachable, match=rf"cluster.address: .*:{port}.*ray start --head"):
        reached(there)


@pytest.mark.parametrize("address", ["nowhere.invalid:6379", "127.0.0.1:66000"])
def test_what_can_be_no_address_is_refused(address: str) -> None:
    with pytest.raises(Unreachable, match="correct the address"):
        reached(LocalCluster(address=address))


def test_an_address_at_which_nobody_listens_is_found_before_anything_starts(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, cluster={"kind": "local", "address": "127.0.0.1:9"})
    with pytest.raises(Unreachable, match=r"cluster\.address: '127\.0\.0\.1:9' does not answer"):
        check_cluster(spec)


def test_words_of_rays_own_are_left_to_ray() -> None:
    assert reached(LocalCluster(address="auto")) == LocalCluster(address="auto")


@pytest.mark.ray
def test_a_head_of_ours_does_not_remember_each_task(ray_address: str) -> None:
    """Ray's own limit is a hundred thousand, which take 400 MiB."""
    assert answer_of(KNOWN_TASKS, ray_address) <= 1000


@contextmanager
def listening(host: str) -> Iterator[int]:
    """Somebody who listens, and says no word."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        yield int(server.getsockname()[1])
