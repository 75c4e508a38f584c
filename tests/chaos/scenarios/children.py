"""Rows with up to 300 children each, made by a step; all of a parent's are published, or none."""

import random
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from tests.chaos.compare import in_folder
from tests.chaos.inputs import reference, spread, write_parquet, write_spec
from tests.chaos.outcome import Outcome, judge
from tests.chaos.processes import WHOLE_TREE
from tests.chaos.scenarios.killer import Killer, after_rows
from tests.chaos.session import Session
from tests.chaos.user_code.chaos_code import num_children

STEP = {"kind": "python", "function": "chaos_code:multiply", "with_row_ids": True}
READ = {"rows_per_batch": 32}


def children(session: Session, seed: int, *, parents: int = 1_000) -> Outcome:
    """Killed in the middle; what is staged by then holds whole families too."""
    dice = random.Random(seed)
    with session.place(f"children-{seed}") as place:
        total = sum(num_children(row) for row in range(parents))
        write_parquet(place.folder / "in", spread(parents, 10))
        spec = write_spec(place, 0.01, steps=[STEP], stages={"read": READ})
        expected = in_folder(reference(place, spec))
        killer = Killer(place, spec, dice, place.start(spec))
        if killer.until(after_rows(killer, dice.randrange(total // 4, total // 2))):
            killer.kill(WHOLE_TREE)
        problems = torn_families(place.folder / "out.state")
        killer.finish()
        if expected.total() != total:
            problems += (f"{expected.total()} children, not {total}, in the undisturbed run",)
        problems += killer.problems + torn_families(place.folder / "out.state")
        return judge(place, spec, expected, seed, killer.kills, problems=problems)


def torn_families(state: Path) -> tuple[str, ...]:
    """Parents that have some of their children in a file, and not all."""
    torn = []
    for file in state.glob("runs/*/staging/*.parquet"):
        found = Counter(pq.read_table(file, columns=["id"])["id"].to_pylist())
        torn += [parent for parent, count in found.items() if count != num_children(parent)]
    return (f"parents {torn[:3]} are torn",) if torn else ()
