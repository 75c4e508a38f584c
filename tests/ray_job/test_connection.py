"""What a driver has Ray do for it, set before Ray Data is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.ray_job.connection import CLAIM, CLAIM_SECONDS, TOKEN, need_no_home
from tests.ray_driver import answer_of

DRIVER = """
from types import SimpleNamespace

import ray

from tasks.ray_job import connection

ray.is_initialized = lambda: True
ray.get_runtime_context = lambda: SimpleNamespace(gcs_address="there")
ray.shutdown = lambda: None
connection.is_own_machine = lambda spec: False
with connection.connected(SimpleNamespace(spec=None)):
    from ray.data._internal.cluster_autoscaler import DEFAULT_CLUSTER_AUTOSCALER_VERSION as usual
    from ray.data._internal.cluster_autoscaler import RateBasedClusterAutoscaler as autoscaler

    print(usual, autoscaler.AUTOSCALING_REQUEST_EXPIRE_TIME_S)
"""


def seconds_of_claim(**environment: str) -> str:
    """What Ray's autoscaler of a job would take, as its driver has set it."""
    told = subprocess.run(
        [sys.executable, "-c", DRIVER],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return told.stdout.splitlines()[-1]


def test_a_dead_driver_does_not_keep_its_nodes_for_long() -> None:
    """Else the next attempt would wait three minutes for them."""
    assert seconds_of_claim() == f"RATE_BASED {CLAIM_SECONDS}"
    assert seconds_of_claim(**{CLAIM: "77"}) == "RATE_BASED 77"


OWN_RAY = """
import ray
from tasks.ray_job.connection import connect
connect({"address": "local", "include_dashboard": False, "num_cpus": 1})
answer(ray.get(ray.remote(lambda: "done").remote()))
"""


@pytest.mark.ray
@pytest.mark.usefixtures("short_ray_folder")
def test_a_ray_of_ones_own_needs_no_home() -> None:
    """As where a container's disk is read-only: it writes its token there, and did not start."""
    without = {name: value for name, value in os.environ.items() if "RAY_AUTH" not in name}
    assert answer_of(OWN_RAY, environment={**without, "HOME": os.devnull}) == "done"


@pytest.mark.parametrize("token", [None, "", "theirs"])
def test_where_there_is_a_home_a_token_is_left_there(
    token: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For those who look at it by Ray's own commands."""
    for name in (TOKEN, f"{TOKEN}_PATH", "RAY_AUTH_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    if token is not None:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text(token)
    need_no_home()
    assert TOKEN not in os.environ
