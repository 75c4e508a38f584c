"""All scenarios by name, in the order in which they run."""

from functools import partial

from tests.chaos.outcome import Scenario
from tests.chaos.scenarios.changed import changed
from tests.chaos.scenarios.children import children
from tests.chaos.scenarios.csv_empty import csv_empty
from tests.chaos.scenarios.kills import SMALL, kills
from tests.chaos.scenarios.limited import limited
from tests.chaos.scenarios.memory import memory
from tests.chaos.scenarios.node import node
from tests.chaos.scenarios.publish import publish
from tests.chaos.scenarios.race import race
from tests.chaos.scenarios.slow import slow
from tests.chaos.scenarios.worker import worker

SCENARIOS: dict[str, Scenario] = {
    "kills": kills,
    "replicas": partial(kills, rows=30_000, num_kills=6, seconds=0.06, replicas=2, name="replicas"),
    "processes": partial(kills, rows=20_000, files=50, num_kills=5, kinds=SMALL, name="processes"),
    "publish": publish,
    "worker": worker,
    "memory": memory,
    "slow": slow,
    "slow-2": partial(slow, replicas=2, name="slow-2"),
    "node": node,
    "children": children,
    "csv-empty": csv_empty,
    "limited": limited,
    "race": race,
    "changed": changed,
}
