"""Inputs rewritten between a kill and the rerun, and between two finished runs."""

import random

from tests.chaos.compare import fingerprint, in_folder
from tests.chaos.inputs import reference, spread, write_parquet, write_rows, write_spec
from tests.chaos.outcome import Outcome, judge
from tests.chaos.processes import WHOLE_TREE, kill
from tests.chaos.scenarios.killer import Killer, after_rows
from tests.chaos.session import Session


def changed(session: Session, seed: int, *, rows: int = 20_000, files: int = 20) -> Outcome:
    """Old rows are replaced, whether they were recorded or published; all others stay."""
    dice = random.Random(seed)
    with session.place(f"changed-{seed}") as place:
        folder = place.folder / "in"
        write_parquet(folder, spread(rows, files))
        inputs = sorted(folder.iterdir())
        spec = write_spec(place, 0.02)
        killer = Killer(place, spec, dice, place.start(spec))
        killer.until(after_rows(killer, rows // 2))
        kill(place.mark, WHOLE_TREE, dice)
        killer.run.wait()
        # One that has been read by now, as a rule, and one that has not.
        write_rows(inputs[0], range(700), scale=3.0)
        write_rows(inputs[-1], range(rows, rows + 1_500), scale=3.0)
        place.finish(spec)
        difference = in_folder(reference(place, spec)) - in_folder(place.folder / "out")
        problems: tuple[str, ...] = ()
        if difference:
            problems += (f"{difference.total()} rows lost after the kill",)
        before = fingerprint(place.folder / "out")
        write_rows(inputs[1], range(rows + 5_000, rows + 5_100), scale=5.0)
        place.finish(spec)
        after = fingerprint(place.folder / "out")
        untouched = [name for name in before if after.get(name) == before[name]]
        if len(untouched) < len(before) // 2:
            problems += (f"only {len(untouched)} of {len(before)} files were left alone",)
        expected = in_folder(reference(place, spec, "reference2"))
        return judge(place, spec, expected, seed, 1, problems=problems)
