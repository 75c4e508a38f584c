"""A node of a cluster dies, with its workers and its share of the object store."""

import random
import time
from pathlib import Path

import psutil

from tests.chaos.compare import in_folder
from tests.chaos.inputs import BATCH, reference, write_spec
from tests.chaos.outcome import Outcome, judge
from tests.chaos.processes import MARK
from tests.chaos.scenarios.killer import Killer, after_rows
from tests.chaos.session import LOG, Session
from tests.ray_cluster import ray_cluster

GOES_ON_SECONDS = 300.0
"""Half as long as a job may stand still: what is left has fewer cores than three replicas want."""


def kill_node(raylet: int) -> int:
    """SIGKILL a raylet and its workers; return how many processes."""
    try:
        process = psutil.Process(raylet)
        doomed = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for each in doomed:
        each.kill()
    return len(doomed)


def write_texts(folder: Path, files: int, dice: random.Random) -> int:
    """Text files of very different lengths, with lines of very different lengths; lines in all."""
    line = 0
    for number in range(files):
        count = dice.choice((0, 1, 30, 400, 3_000))
        lines = [f"{line + i} {'x' * dice.choice((0, 10, 2_000))}\n" for i in range(count)]
        (folder / f"{number:03d}.txt").write_text("".join(lines))
        line += count
    return line


def node(session: Session, seed: int, *, files: int = 60) -> Outcome:
    """Text files, whose lengths nobody knows, stream through while a node dies."""
    dice = random.Random(seed)
    with session.place(f"node-{seed}") as place:
        total = write_texts(place.folder / "in", files, dice)
        spec = write_spec(
            place,
            source={"kind": "text", "path": "in"},
            model={"kind": "python", "class": "chaos_code:Measure", "init": {"seconds": 0.02}},
            resources={"batch_size": BATCH, "max_replicas": 3},
        )
        expected = in_folder(reference(place, spec))
        environment = {**place.environment, MARK: place.mark, LOG: str(place.log)}
        with ray_cluster(place.folder / "ray", environment=environment) as found:
            arguments = ("--address", found.address)
            run = place.start(spec, *arguments, **found.environment)
            killer = Killer(place, spec, dice, run, arguments=arguments)
            if killer.until(after_rows(killer, dice.randrange(total // 8, total // 2))):
                killed = kill_node(dice.choice(found.raylets))
                print(f"  killed a node ({killed} processes)", flush=True)
            begun = time.monotonic()
            killer.finish()
            problems = killer.problems
            if (seconds := time.monotonic() - begun) > GOES_ON_SECONDS:
                problems += (f"{seconds:.0f} s from the kill to the end",)
            if expected.total() != total:
                problems += (f"{expected.total()} of {total} lines in the undisturbed run",)
            return judge(place, spec, expected, seed, 1, problems=problems)
