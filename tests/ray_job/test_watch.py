"""What Ray's executor takes note of while a job runs."""

from types import SimpleNamespace
from typing import Any

import pytest

from tasks.errors import NoProgress
from tasks.ray_job import watch
from tasks.ray_job.cluster import LastSnapshot
from tasks.ray_job.counts import Counts, Report
from tasks.ray_job.executor_status import Aloud
from tasks.ray_job.lost_room import Replicas
from tasks.ray_job.occupancy import NODES_EVERY_SECONDS, Occupancy
from tasks.ray_job.progress import JobStatus
from tasks.ray_job.watch import Watch
from tests.ray_job.test_own_machine import ELSEWHERE, job_of, spec

LATER = NODES_EVERY_SECONDS + 1


class Nodes:
    """A cluster of one node of four cores, which others may join."""

    def __init__(self) -> None:
        self.there, self.asked = [{"CPU": 4.0}], 0

    def __call__(self) -> list[dict[str, float]]:
        self.asked += 1
        return self.there


def test_a_cluster_that_grows_has_more_cores_on_several_machines() -> None:
    nodes, occupancy = Nodes(), Occupancy(cores=4.0, is_one_machine=True)
    occupancy.grow(0.0, nodes)
    assert (occupancy.cores, occupancy.is_one_machine) == (4.0, True)
    nodes.there += [{"CPU": 12.0}, {"GPU": 1.0}]
    occupancy.grow(NODES_EVERY_SECONDS / 2, nodes)
    assert (occupancy.cores, nodes.asked) == (4.0, 1), "it asked just now"
    occupancy.grow(LATER, nodes)
    assert (occupancy.cores, occupancy.is_one_machine) == (16.0, False)
    occupancy.see(LATER, {})
    counts = Counts().snapshot()
    occupancy.as_json(counts)
    assert occupancy.as_json(counts)["machine_busy"] is None
    nodes.there = nodes.there[:1]
    occupancy.grow(2 * LATER, nodes)
    assert (occupancy.cores, occupancy.is_one_machine) == (4.0, False), "there were several"


def test_cores_that_came_late_were_not_there_all_the_time() -> None:
    """As workers that came late were not: three of four seconds on four cores, one on sixteen."""
    nodes, occupancy, counts = Nodes(), Occupancy(cores=4.0), Counts().snapshot()
    occupancy.see(0.0, {})
    assert occupancy.as_json(counts)["cores"] == 4.0
    occupancy.see(3.0, {})
    nodes.there += [{"CPU": 12.0}]
    occupancy.grow(3.0, nodes)
    occupancy.see(4.0, {})
    assert occupancy.as_json(counts)["cores"] == 7.0


def test_nodes_are_told_as_the_job_found_them() -> None:
    """Whatever else Ray says of them."""
    large = {"CPU": 8.0, "GPU": 2.0, "memory": 30.123456, "accelerator_type:A100": 1.0}
    occupancy = Occupancy(nodes=[{**large, "node:10.0.0.1": 1.0, "object_store_memory": 9e9}])
    occupancy.grow(0.0, Nodes())
    occupancy.see(0.0, {})
    assert occupancy.as_json(Counts().snapshot())["nodes"] == [{**large, "memory": 30.123}]


@pytest.mark.parametrize(("where", "seen"), [(ELSEWHERE, 16.0), ({"kind": "local"}, 2.0)])
def test_a_jobs_executor_looks_at_the_nodes_of_a_cluster_and_not_at_its_own_machines(
    where: dict[str, Any], seen: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of which more cores are handed out than there are."""
    nodes, occupancy = Nodes(), Occupancy(cores=2.0)
    nodes.there += [{"CPU": 12.0}]
    job = job_of(spec(cluster=where))
    progress = SimpleNamespace(job=job, occupancy=occupancy, moved=100.0)
    monkeypatch.setattr(watch, "nodes_now", nodes)
    monkeypatch.setattr(watch, "status_of", lambda executor: JobStatus("infer"))
    monkeypatch.setattr(Watch, "progress", progress)
    monkeypatch.setattr(watch, "replicas_now", lambda executor: Replicas())
    monkeypatch.setattr(watch, "nodes_lost", frozenset)
    for now in (100.0, 101.0, 102.0):
        Watch().status(None, now)
    assert occupancy.cores == seen
    assert nodes.asked <= 1


def test_a_job_in_which_nothing_moves_ends_itself_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever follows it would have ended it before; but nobody may."""
    progress = SimpleNamespace(job=job_of(spec()), moved=0.0)
    monkeypatch.setattr(watch, "status_of", lambda executor: JobStatus("infer", "a place"))
    monkeypatch.setattr(Watch, "progress", progress)
    assert Watch().status(None, 1_800.0).waits_for == "a place"
    with pytest.raises(NoProgress, match="stage infer failed: no row has moved for 1900 s"):
        Watch().status(None, 1_900.0)


def test_what_a_job_waits_for_long_stands_in_its_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model may take a quarter of an hour to load, and a GPU as long to come."""
    place, load = "a place for 1 replica", "1 replica of infer to load the model"
    waits = [(0, place), (29, place), (30, None), (40, place), (69, place), (70, place)]
    waits += [(99, place), (100, load), (130, load), (200, load), (201, None), (300, None)]
    monkeypatch.setattr(Watch, "aloud", Aloud())
    said = []
    for now, waits_for in waits:
        monkeypatch.setattr(Watch, "status", lambda *_, w=waits_for: JobStatus("infer", w))
        assert Watch().status_aloud(None, float(now)).waits_for == waits_for
        said += [(now, line) for line in capsys.readouterr().out.splitlines()]
    assert said == [(70, f"the job waits for {place}"), (130, f"the job waits for {load}")]


def test_what_a_counting_actor_had_said_before_its_process_died_counts_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray starts it anew, at zero; else a stage would be busy for less than no time."""
    counts = Counts()
    snapshot = SimpleNamespace(remote=lambda: None)
    look = LastSnapshot(SimpleNamespace(snapshot=snapshot))
    monkeypatch.setattr("ray.get", lambda *_, **__: counts.snapshot())
    assert look() == counts.snapshot()
    counts.add(Report("read", 10, rejected=1, filtered=2, seconds=3.0, tasks=1))
    before = look()["read"]
    for rows in (4, 3):
        counts = Counts()
        counts.add(Report("read", rows, rejected=0, filtered=1, seconds=0.5, tasks=1))
        assert look() == look()
    now = look()["read"]
    assert [now[name] for name in ("rows", "rejected", "filtered", "seconds", "tasks")] == [
        *(17, 1, 4, 4.0, 3)
    ]
    assert now["started"] == before["started"]
    assert now["updated"] > before["updated"]
