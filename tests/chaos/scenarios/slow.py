"""Storage slower than the model: what is not recorded, and what a kill costs, stays bounded."""

import random

from tasks.ray_job.writing import most_unrecorded
from tests.chaos.inputs import BATCH, doubled, spread, write_parquet, write_spec
from tests.chaos.outcome import Outcome, judge
from tests.chaos.processes import WHOLE_TREE
from tests.chaos.scenarios.killer import Killer, after_rows
from tests.chaos.scenarios.kills import resources_of
from tests.chaos.session import HERE, Session

CALL_SECONDS = 0.4
ROWS_PER_RECORD = 2 * BATCH
RECORD_SECONDS = 4.0
"""Of two writers at once: 64 rows a second, where a replica makes 160."""
BOUND = most_unrecorded(CALL_SECONDS * ROWS_PER_RECORD / BATCH) * (ROWS_PER_RECORD + BATCH)
"""Rows that one replica may be handed again: batches without a record, and a call in each."""


def slow(
    session: Session, seed: int, *, rows: int = 4_000, replicas: int = 1, name: str = "slow"
) -> Outcome:
    """Killed once, when the model would be far ahead of the writers if it could.

    Args:
        session: where.
        seed: draws the moment.
        rows: for each replica, whose share of the writers is the same however many there are.
        replicas: how many.
        name: the scenario's.
    """
    dice, rows = random.Random(seed), rows * replicas
    with session.place(f"{name}-{seed}") as place:
        write_parquet(place.folder / "in", spread(rows, 40))
        wanted = {"resources": resources_of(replicas)}
        wanted["stages"] = {"read": {"rows_per_batch": ROWS_PER_RECORD}}
        spec = write_spec(place, CALL_SECONDS, **wanted)
        place.environment = {
            **place.environment,
            "PYTHONPATH": f"{HERE / 'hooks'}:{place.environment.get('PYTHONPATH', '')}",
            "CHAOS_SLOW": str(RECORD_SECONDS / replicas),
        }
        killer = Killer(place, spec, dice, place.start(spec))
        if killer.until(after_rows(killer, dice.randrange(rows * 2 // 3, rows * 9 // 10))):
            killer.kill(WHOLE_TREE)
        killer.finish()
        bound, problems = BOUND * replicas * killer.kills, killer.problems
        return judge(place, spec, doubled(rows), seed, killer.kills, bound=bound, problems=problems)
