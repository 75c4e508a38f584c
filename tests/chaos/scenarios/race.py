"""Two runs started at once on one output: the same spec twice, and two with common inputs."""

import random
import time
from pathlib import Path

from tests.chaos.inputs import doubled, spread, write_parquet, write_spec
from tests.chaos.outcome import Outcome, judge
from tests.chaos.session import Place, Session

STAGGER_SECONDS = 6.0
SECONDS = 0.02
ALLOWED = (0, 4)
"""Done, or another run holds the output."""


def race(
    session: Session,
    seed: int,
    *,
    rows: int = 4_000,
    files: int = 20,
    rounds: int = 6,
    clusters: tuple[str, ...] = ("inline", "local"),
    stagger_seconds: float = STAGGER_SECONDS,
) -> Outcome:
    """Each round on a fresh output, the second run sooner or later after the first."""
    dice = random.Random(seed)
    outcomes = []
    for number in range(rounds):
        with session.place(f"race{number}-{seed}") as place:
            cluster = clusters[number % len(clusters)]
            specs = prepare(place, rows, files, cluster, same=number // 2 % 2 == 0)
            wait = dice.uniform(0, stagger_seconds) if number >= len(clusters) else 0.0
            total = rows if specs[0] == specs[1] else 2 * rows
            outcomes.append(one_round(place, specs, seed, wait, total))
    problems = tuple(problem for each in outcomes for problem in each.problems)
    return Outcome(
        scenario="race",
        seed=seed,
        kills=0,
        rows=sum(each.rows for each in outcomes),
        lost=sum(each.lost for each in outcomes),
        doubled=sum(each.doubled for each in outcomes),
        problems=problems,
    )


def prepare(place: Place, rows: int, files: int, cluster: str, *, same: bool) -> list[Path]:
    """The specs of both runs; the last reads all that there is."""
    first = write_parquet(place.folder / "in", spread(rows, files))
    cluster_field = {"cluster": {"kind": cluster}}
    one = write_spec(place, SECONDS, **cluster_field)
    if same:
        return [one, one]
    one = one.rename(place.folder / "one.yaml")
    write_parquet(place.folder / "in2", spread(rows, files), first)
    source = {"kind": "parquet", "path": ["in", "in2"]}
    return [one, write_spec(place, SECONDS, source=source, **cluster_field)]


def one_round(
    place: Place, specs: list[Path], seed: int, wait_seconds: float, rows: int
) -> Outcome:
    """Start both, see how they end, and let a third finish what a loser has left."""
    runs = []
    for spec in specs:
        runs.append(place.start(spec))
        time.sleep(wait_seconds)
    problems = []
    for run in runs:
        code = run.wait()
        print(f"  {place.folder.name}: exit code {code} after {wait_seconds:.1f} s", flush=True)
        if code not in ALLOWED:
            problems.append(f"exit code {code}: {run.errors()[-300:]}")
    place.finish(specs[-1])
    return judge(place, specs[-1], doubled(rows), seed, 0, problems=tuple(problems))
