"""All scenarios by name, in the order in which they run."""

from functools import partial

from tests.chaos.outcome import Scenario
from tests.chaos.scenarios.changed import changed
from tests.chaos.scenarios.kills import kills
from tests.chaos.scenarios.limited import limited
from tests.chaos.scenarios.node import node
from tests.chaos.scenarios.race import race
from tests.chaos.scenarios.worker import worker

SCENARIOS: dict[str, Scenario] = {
    "kills": kills,
    "two": partial(kills, rows=10_000, files=40, num_kills=2),
    "worker": worker,
    "node": node,
    "limited": limited,
    "race": race,
    "changed": changed,
}
