"""The simulator in small: `python -m tests.simulation` runs as many schedules as you like."""

from collections import Counter

from tests.simulation.crashes import CrashTree
from tests.simulation.schedule import LARGE, SMALL, Schedule, Size, run_schedule

MIN_SCHEDULES = 100_000
MAX_TREES = 200
DONE_TO_TREES = {
    "crashes",
    "executions cut anew",
    "executions lost",
    "executions repeated",
    "inputs rewritten under a run",
    "redrives that race",
    "replies lost",
    "requests lost",
    "runs that race",
    "versions without an entry",
    "zombies",
}
DONE_TO_RACES = DONE_TO_TREES - {"redrives that race"} | {
    "attempts given up",
    "clocks that jump",
    "objects left out of a listing",
}


def test_no_crash_after_crash_breaks_a_promise() -> None:
    schedules, tally = 0, Counter[str]()
    for seed in range(MAX_TREES):
        tree = CrashTree(seed)
        problem = tree.grow()
        assert not problem, f"`python -m tests.simulation --trees 1 --start {seed}`: {problem}"
        schedules += tree.schedules
        tally.update(tree.tally)
        if schedules >= MIN_SCHEDULES:
            break
    assert schedules >= MIN_SCHEDULES
    assert min(tally[what] for what in DONE_TO_TREES) > 20, tally


def races(size: Size, option: str, many: int) -> None:
    tally = Counter[str]()
    for seed in range(many):
        problem = run_schedule(seed, size, tally)
        assert not problem, f"`python -m tests.simulation {option} 1 --start {seed}`: {problem}"
    assert min(tally[what] for what in DONE_TO_RACES) > 5, tally


def test_no_race_in_a_small_world_breaks_a_promise() -> None:
    races(SMALL, "--small", 400)


def test_no_race_in_a_large_world_breaks_a_promise() -> None:
    races(LARGE, "--large", 60)


def test_a_seed_replays() -> None:
    endings = []
    for _ in range(2):
        schedule = Schedule(7)
        with schedule.world.in_charge():
            schedule.play()
        endings.append((schedule.world.steps, schedule.world.storage.objects))
    assert endings[0] == endings[1]
    trees = [CrashTree(7), CrashTree(7)]
    assert [tree.grow() for tree in trees] == [None, None]
    assert trees[0].runs == trees[1].runs
    assert trees[0].tally == trees[1].tally
