"""Storage slower than the model: what is not recorded, and what a kill costs, stays bounded."""

import random

from tests.chaos.inputs import doubled, spread, write_parquet, write_spec
from tests.chaos.outcome import Outcome, judge
from tests.chaos.processes import WHOLE_TREE
from tests.chaos.scenarios.killer import Killer, after_rows
from tests.chaos.scenarios.kills import BOUND_PER_KILL, resources_of
from tests.chaos.session import HERE, Session

RECORD_SECONDS = "1.0"


def slow(
    session: Session, seed: int, *, rows: int = 30_000, replicas: int = 1, name: str = "slow"
) -> Outcome:
    """Killed once, with the model far faster than the writers."""
    dice = random.Random(seed)
    with session.place(f"{name}-{seed}") as place:
        write_parquet(place.folder / "in", spread(rows, 40))
        spec = write_spec(place, 0.001, resources=resources_of(replicas))
        place.environment = {
            **place.environment,
            "PYTHONPATH": f"{HERE / 'hooks'}:{place.environment.get('PYTHONPATH', '')}",
            "CHAOS_SLOW": RECORD_SECONDS,
        }
        killer = Killer(place, spec, dice, place.start(spec))
        if killer.until(after_rows(killer, dice.randrange(rows // 3, rows // 2))):
            killer.kill(WHOLE_TREE)
        killer.finish()
        bound, problems = BOUND_PER_KILL * replicas * killer.kills, killer.problems
        return judge(place, spec, doubled(rows), seed, killer.kills, bound=bound, problems=problems)
