"""Who is said to have the cores, of looks at processes."""

import os

import pytest

from tests.benchmarks.cores import (
    ACTORS,
    DAEMONS,
    REPLICAS,
    REST,
    WORKERS,
    Look,
    Watch,
    kind_of,
    table,
)

WORKER = "/venv/bin/python -u /venv/ray/_private/workers/default_worker.py"


@pytest.mark.parametrize(
    ("titles", "kind"),
    [
        ({WORKER, "ray::IDLE", "ray::MapWorker(MapBatches(Infer)).submit"}, REPLICAS),
        ({WORKER, "ray::IDLE", "ray::_StatsActor"}, ACTORS),
        ({WORKER, "ray::IDLE"}, WORKERS),
        ({"/venv/ray/core/src/ray/raylet/raylet --raylet_socket_name=x"}, DAEMONS),
        ({"ray::DashboardAgent"}, DAEMONS),
        ({"/venv/bin/python -P -m tasks.ray_job --wait"}, "the job's driver"),
        ({"", "sleep 1"}, REST),
    ],
)
def test_a_process_is_what_it_ever_was(titles: set[str], kind: str) -> None:
    assert kind_of(titles) == kind


def test_only_what_was_spent_meanwhile_counts() -> None:
    replica, late, own = 1, 2, os.getpid()
    watch = Watch(
        looks=[
            Look(0.0, {own: 0.0}),
            Look(10.2, {own: 1.0, replica: 5.0}),
            Look(30.1, {own: 9.0, replica: 22.0, late: 3.0}),
            Look(40.0, {own: 9.0, replica: 90.0, late: 70.0}),
        ],
        titles={replica: {"ray::MapWorker"}, late: {"ray::IDLE"}, own: {"python"}},
    )
    assert watch.spent(10.0, 30.0) == {REPLICAS: 17.0, WORKERS: 3.0}


def test_what_nobody_has_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert table({WORKERS: 3.0, REPLICAS: 17.0}, 20.0, 1_000)[4:] == [
        f"| {REPLICAS} | 17.0 | 42.5% |",
        f"| {WORKERS} | 3.0 | 7.5% |",
        "| nobody, or others | 20.0 | 50.0% |",
    ]
