"""A job with a machine to itself starts none of Ray Data's helpers, and predicts all the same."""

import subprocess
import sys

import pytest

JOBS = """
from contextlib import nullcontext

import ray

ray.init(address="local", include_dashboard=False, num_cpus=2, object_store_memory=80 << 20)
ray.data.DataContext.get_current().enable_progress_bars = False

from tasks.ray_job.bare_data import bare_data


class Twice:
    def __call__(self, batch):
        return {"id": 2 * batch["id"]}


for surroundings in (bare_data, nullcontext):
    with surroundings():
        rows = ray.data.range(8).map_batches(Twice, concurrency=(1, 2), batch_size=2).take_all()
    print(sorted(row["id"] for row in rows))
    print(*sorted(each["name"] for each in ray.util.list_named_actors(all_namespaces=True)))
"""
HELPERS = "ActorLocationTracker AutoscalingCoordinator datasets_stats_actor"


@pytest.mark.ray
@pytest.mark.usefixtures("short_ray_folder")
def test_helpers_that_only_clusters_need_are_not_started() -> None:
    """Without the block they are: where Ray gives them other names, this shows it."""
    command = [sys.executable, "-c", JOBS]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ids = str([*range(0, 16, 2)])
    assert told.split("\n")[-5:-1] == [ids, "", ids, HELPERS]
