"""What runs beside a job that starts a Ray for itself."""

import subprocess
import sys

import pytest

from tests.test_waiting import PATIENCE

WHO_IS_THERE = """
import psutil, ray
from tasks.ray_job.bare_head import NO_FIGURES
from tasks.ray_job.connection import connect
from tasks.ray_job.ending import end_with_children

connect({"address": "local", "include_dashboard": False, "num_cpus": 1})
for each in psutil.Process().children(recursive=True):
    print(each.name(), *each.cmdline())
    if each.name() == "raylet":
        print("figures", *(each.environ()[name] for name in NO_FIGURES))
print("cores", ray.cluster_resources()["CPU"], flush=True)
end_with_children(0)
"""


@pytest.mark.ray
@pytest.mark.usefixtures("short_ray_folder")
def test_neither_an_autoscaler_nor_a_dashboard_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_event_stats", "1")  # somebody wants these
    command = [sys.executable, "-c", WHO_IS_THERE]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert "raylet" in done.stdout
    assert "figures 0 1" in done.stdout
    assert "cores 1.0" in done.stdout
    for unneeded in ("autoscaler", "dashboard.py"):
        assert unneeded not in done.stdout
