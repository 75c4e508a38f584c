"""A run over the first rows with an output of its own, killed once, and then the full run."""

import random

from tests.chaos.compare import compare, in_folder, rows_of
from tests.chaos.inputs import reference, spread, write_parquet, write_spec
from tests.chaos.outcome import Outcome, judge
from tests.chaos.processes import WHOLE_TREE
from tests.chaos.scenarios.killer import Killer, after_rows
from tests.chaos.session import Session

SECONDS = 0.02


def limited(session: Session, seed: int, *, rows: int = 20_000, limit: int = 5_300) -> Outcome:
    """The limit falls inside a file; neither run sees the other."""
    dice = random.Random(seed)
    with session.place(f"limited-{seed}") as place:
        write_parquet(place.folder / "in", spread(rows, 40))
        spec = write_spec(place, SECONDS)
        other = place.folder / "other"
        arguments = ("--limit", str(limit), "--output", str(other))
        killer = Killer(place, spec, dice, place.start(spec, *arguments), arguments=arguments)
        if killer.until(after_rows(killer, limit // 2)):
            killer.kill(WHOLE_TREE)
        killer.finish()
        expected = in_folder(reference(place, spec))
        first = rows_of([])
        first.update({row: n for row, n in expected.items() if row[0] < limit})
        found = compare(other, first)
        problems = killer.problems
        if found.rows != limit or found.lost or found.doubled:
            problems += (f"the limited run published {found}",)
        if place.finish(spec, *arguments)["published"]:
            problems += ("another limited run was no no-op",)
        place.finish(spec)
        if compare(other, first) != found:
            problems += ("the full run changed the limited one's output",)
        return judge(place, spec, expected, seed, killer.kills, problems=problems)
