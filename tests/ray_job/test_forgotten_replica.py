"""A replica that Ray takes for dead ends itself.

That Ray loses sight of one cannot be brought about: here an actor goes by what Ray says of another
one, which it has killed.
"""

import pytest

from tasks.ray_job import operators
from tasks.ray_job.operators import Infer
from tests.ray_driver import answer_of
from tests.ray_job.test_operators import ignore
from tests.ray_job.test_own_machine import job_of, spec

WATCHES = """
import sys
from types import SimpleNamespace
import ray
from tasks.ray_job import forgotten_replica

class Replica:
    def begin(self, goes_by):
        context = ray.get_runtime_context()
        forgotten_replica.LOOK_EVERY_SECONDS = 0.1
        if goes_by:
            ray.get_runtime_context = lambda: SimpleNamespace(get_actor_id=lambda: goes_by)
        forgotten_replica.end_if_forgotten()
        return context.get_actor_id()

    def wait(self, seconds):
        import time
        time.sleep(seconds)
        return "goes on"

ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
replica = ray.remote(Replica).options(num_cpus=0)
killed, known, forgotten = (replica.remote() for _ in range(3))
dead = ray.get(killed.begin.remote(None))
ray.kill(killed)
ended = []
for each, goes_by, seconds in ((known, None, 3), (forgotten, dead, 45)):
    try:
        ray.get(each.begin.remote(goes_by))
        ended.append(ray.get(each.wait.remote(seconds)))
    except ray.exceptions.RayActorError:
        ended.append("ends")
answer(ended)
"""


@pytest.mark.ray
def test_it_ends_where_ray_says_that_it_is_dead(ray_address: str) -> None:
    assert answer_of(WATCHES, ray_address) == ["goes on", "ends"]


def test_each_replica_looks_before_it_loads_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be forgotten while it does."""
    done = list[str]()
    monkeypatch.setattr(operators, "end_if_forgotten", lambda: done.append("looks"))
    monkeypatch.setattr(operators, "infer_stage", lambda *_: done.append("loads"))
    monkeypatch.setattr(operators, "on_this_node", lambda error: error)
    Infer(job_of(spec()), 0, ignore)
    assert done == ["looks", "loads"]
