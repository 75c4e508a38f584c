"""The simulator in small: `python -m tests.simulation` runs as many schedules as you like."""

import multiprocessing

from tests.simulation.schedule import Schedule, run_schedule

SCHEDULES = 300
"""As many as show each rule of the protocol broken, see `test_rules_broken`."""
PROCESSES = 2


def test_no_schedule_breaks_a_promise() -> None:
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        problems = pool.imap(run_schedule, range(SCHEDULES), chunksize=20)
        found = {seed: problem for seed, problem in enumerate(problems) if problem}
    assert not found, f"replay with `python -m tests.simulation --seeds 1 --start SEED`: {found}"


def test_a_seed_replays() -> None:
    endings = []
    for _ in range(2):
        schedule = Schedule(7)
        with schedule.world.in_charge():
            schedule.play()
        endings.append((schedule.world.steps, schedule.world.storage.objects))
    assert endings[0] == endings[1]
