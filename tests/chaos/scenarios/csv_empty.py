"""CSV files, one of them empty and one with a header and no row; killed once."""

import random

from tests.chaos.compare import in_folder
from tests.chaos.inputs import reference, write_spec
from tests.chaos.outcome import Outcome, judge
from tests.chaos.processes import WHOLE_TREE
from tests.chaos.scenarios.killer import Killer, after_rows
from tests.chaos.session import Session

SOURCE = {"kind": "csv", "path": "in"}
HEADER = "id,x\n"


def csv_empty(session: Session, seed: int, *, files: int = 20, rows: int = 800) -> Outcome:
    """Shards without rows are done when their end is recorded, and are not waited for."""
    dice = random.Random(seed)
    with session.place(f"csv-empty-{seed}") as place:
        for number in range(files):
            ids = range(number * rows, (number + 1) * rows)
            content = HEADER + "".join(f"{i},{i}.5\n" for i in ids)
            (place.folder / "in" / f"{number:03d}.csv").write_text(content)
        (place.folder / "in" / "005-empty.csv").write_text("")
        (place.folder / "in" / "010-header.csv").write_text(HEADER)
        spec = write_spec(place, 0.02, source=SOURCE)
        expected = in_folder(reference(place, spec))
        killer = Killer(place, spec, dice, place.start(spec))
        if killer.until(after_rows(killer, dice.randrange(files * rows // 2))):
            killer.kill(WHOLE_TREE)
        killer.finish()
        problems = killer.problems
        if expected.total() != files * rows:
            problems += (f"{expected.total()} rows in the undisturbed run",)
        return judge(place, spec, expected, seed, killer.kills, problems=problems)
