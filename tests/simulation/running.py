"""Seeds run on several processes."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator

from tests.simulation.crashes import CrashTree
from tests.simulation.schedule import LARGE, SMALL, run_schedule

Task = tuple[str, int]
"""What to run, and its seed."""
Done = tuple[str, int, str | None, int, int, Counter[str]]
"""What was run: kind, seed, what went wrong, schedules, runs made for them, what was done."""


def run_seed(task: Task) -> Done:
    """One tree, or one schedule of two sizes."""
    kind, seed = task
    if kind == "trees":
        tree = CrashTree(seed)
        return kind, seed, tree.grow(), tree.schedules, tree.runs, tree.tally
    tally: Counter[str] = Counter()
    problem = run_schedule(seed, SMALL if kind == "small" else LARGE, tally)
    return kind, seed, problem, 1, 1, tally


def run_all(tasks: list[Task], processes: int, minutes: float) -> Iterator[Done]:
    """Each task done, in order, until the time is over."""
    until = time.monotonic() + minutes * 60
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for done in pool.imap(run_seed, tasks, chunksize=20 if len(tasks) > 200 else 1):
            yield done
            if time.monotonic() > until:
                pool.terminate()
                return
