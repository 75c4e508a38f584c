"""Whole trees and single processes killed at random moments, each time with a rerun at once."""

import random
from collections.abc import Callable
from typing import Any

from tests.chaos.inputs import BATCH, ROWS_PER_WRITE, doubled, spread, write_parquet, write_spec
from tests.chaos.outcome import Outcome, judge
from tests.chaos.processes import WHOLE_TREE
from tests.chaos.scenarios.killer import Killer, after_rows, after_seconds
from tests.chaos.session import Session

BOUND_PER_KILL = 3 * (BATCH + ROWS_PER_WRITE)
"""Rows that one replica may be handed again after one kill."""
START_SECONDS = 12.0
PUBLISH_SECONDS = 0.5
LARGE = (WHOLE_TREE, WHOLE_TREE, WHOLE_TREE, "orchestrator", "driver")
SMALL = ("worker", "raylet", "gcs")
"""What is killed, each as likely as it stands there."""


def job_succeeded(killer: Killer) -> bool:
    """Whether an attempt has succeeded, so that the run is about to publish."""
    results = (killer.place.folder / "out.state").glob("runs/*/attempts/*/result.json")
    return any('"succeeded"' in file.read_text() for file in results)


def random_moment(killer: Killer, rows: int) -> Callable[[], bool]:
    """Mostly while rows flow, now and then while the run starts."""
    if killer.dice.random() < 0.25:
        return after_seconds(killer.dice.uniform(0, START_SECONDS))
    return after_rows(killer, killer.dice.randrange(rows))


def resources_of(replicas: int) -> dict[str, Any]:
    """So many replicas of the model, all of which fit one core."""
    count = {"min_replicas": replicas, "max_replicas": replicas}
    return {"batch_size": BATCH, "num_cpus": 1 / replicas, **count}


def kills(
    session: Session,
    seed: int,
    *,
    rows: int = 50_000,
    files: int = 200,
    num_kills: int = 10,
    seconds: float = 0.03,
    kinds: tuple[str, ...] = LARGE,
    replicas: int = 1,
    name: str = "kills",
) -> Outcome:
    """Kill again and again, the last time while it publishes."""
    dice = random.Random(seed)
    with session.place(f"{name}-{seed}") as place:
        write_parquet(place.folder / "in", spread(rows, files))
        spec = write_spec(place, seconds, resources=resources_of(replicas))
        expected = doubled(rows)
        killer = Killer(place, spec, dice, place.start(spec))
        for _ in range(num_kills - 1):
            if killer.until(random_moment(killer, int(1.6 * rows / num_kills))):
                killer.kill(dice.choice(kinds))
        if killer.until(lambda: job_succeeded(killer)):
            killer.until(after_seconds(dice.uniform(0, PUBLISH_SECONDS)))
            killer.kill(WHOLE_TREE)
        killer.finish()
        bound = BOUND_PER_KILL * replicas * killer.kills
        problems = killer.problems
        return judge(place, spec, expected, seed, killer.kills, bound=bound, problems=problems)
