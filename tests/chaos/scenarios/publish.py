"""Killed within the second in which a version is committed and applied, again and again."""

import random
import subprocess
import sys
import time
from pathlib import Path

from tests.chaos.compare import by_ledger, in_folder
from tests.chaos.inputs import reference, spread, write_parquet, write_rows, write_spec
from tests.chaos.outcome import Outcome, judge
from tests.chaos.processes import MARK
from tests.chaos.session import LOG, Place, Session

SECONDS = {"started": 0.5, "ready": 0.3}
"""What a publisher says, and how long after it may be killed."""


def publish(session: Session, seed: int, *, versions: int = 20, files: int = 10) -> Outcome:
    """Each version has a new input and a changed one, so that files are added and removed."""
    dice = random.Random(seed)
    with session.place(f"publish-{seed}") as place:
        folder, output = place.folder / "in", place.folder / "out"
        first = write_parquet(folder, spread(40 * files, files))
        spec = write_spec(
            place, cluster={"kind": "inline"}, stages={"read": {"rows_per_batch": 15}}
        )
        run_publisher(place, spec)
        kills = 0
        problems: tuple[str, ...] = ()
        for version in range(versions):
            before = by_ledger(output)
            changed = dice.choice(sorted(folder.iterdir()))
            write_rows(changed, range(first, first + 25), scale=version + 2.0)
            write_rows(folder / f"new{version:03d}.parquet", range(first + 25, first + 60))
            first += 60
            kills += run_publisher(place, spec, dice.choice(list(SECONDS)), dice)
            halfway = by_ledger(output)
            run_publisher(place, spec)
            after = by_ledger(output)
            if halfway not in (before, after):
                problems += (f"version {version + 2} was published in part",)
            if in_folder(output) != after:
                problems += (f"version {version + 2} was applied in part",)
        expected = in_folder(reference(place, spec))
        return judge(place, spec, expected, seed, kills, problems=problems)


def run_publisher(
    place: Place, spec: Path, moment: str = "", dice: random.Random | None = None
) -> bool:
    """Run a publisher; with a moment kill it shortly after. Whether it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.publisher", str(spec)],
        stdout=subprocess.PIPE,
        env={**place.environment, MARK: place.mark, LOG: str(place.log)},
    )
    assert process.stdout
    with process.stdout:
        said = ""
        while said != moment and (line := process.stdout.readline()):
            said = line.decode().strip()
        if dice and said == moment:
            time.sleep(dice.uniform(0, SECONDS[moment]))
            process.kill()
        process.stdout.read()
    code = process.wait()
    if code > 0:
        raise AssertionError(f"a publisher ended with exit code {code}")
    return code < 0
