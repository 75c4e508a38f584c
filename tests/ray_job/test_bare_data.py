"""A job with a machine to itself starts none of Ray Data's helpers, and predicts all the same."""

import pytest

from tests.ray_driver import answer_of

JOBS = """
from contextlib import nullcontext

import ray

ray.init(address="local", include_dashboard=False, num_cpus=2, object_store_memory=80 << 20)
ray.data.DataContext.get_current().enable_progress_bars = False

from tasks.ray_job.bare_data import bare_data


class Twice:
    def __call__(self, batch):
        return {"id": 2 * batch["id"]}


told = []
for surroundings in (bare_data, nullcontext):
    with surroundings():
        rows = ray.data.range(8).map_batches(Twice, concurrency=(1, 2), batch_size=2).take_all()
    told.append(sorted(row["id"] for row in rows))
    told.append(sorted(each["name"] for each in ray.util.list_named_actors(all_namespaces=True)))
answer(told)
"""
HELPERS = ["ActorLocationTracker", "AutoscalingCoordinator", "datasets_stats_actor"]


@pytest.mark.ray
@pytest.mark.usefixtures("short_ray_folder")
def test_helpers_that_only_clusters_need_are_not_started() -> None:
    """Without the block they are: where Ray gives them other names, this shows it."""
    ids = [*range(0, 16, 2)]
    assert answer_of(JOBS) == [ids, [], ids, HELPERS]
