"""A node of a cluster dies, with its workers and its share of the object store."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from tests.chaos.compare import in_folder
from tests.chaos.inputs import reference, write_parquet, write_spec
from tests.chaos.outcome import Outcome, judge
from tests.chaos.processes import MARK
from tests.chaos.scenarios.killer import Killer, after_rows
from tests.chaos.session import Place, Session

NO_AUTH = {"RAY_AUTH_MODE": "disabled"}


@contextmanager
def cluster(place: Place) -> Iterator[dict[str, Any]]:
    """Head and two nodes; the address, and pids of the nodes' raylets."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.nodes"],
        stdout=subprocess.PIPE,
        stderr=(place.folder / "cluster.err").open("wb"),
        env={**place.environment, MARK: place.mark, **NO_AUTH},
    )
    assert process.stdout
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


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


def node(session: Session, seed: int, *, rows: int = 40_000) -> Outcome:
    """Files of very different lengths stream through while a node dies."""
    dice = random.Random(seed)
    with session.place(f"node-{seed}") as place:
        counts = [dice.choice((0, 1, 30, 400, 3_000)) for _ in range(rows // 686)]
        total = write_parquet(place.folder / "in", counts)
        spec = write_spec(place, 0.02, resources={"batch_size": 64, "max_replicas": 3})
        expected = in_folder(reference(place, spec))
        with cluster(place) as found:
            arguments = ("--address", found["address"])
            run = place.start(spec, *arguments, **NO_AUTH)
            killer = Killer(place, spec, dice, run, arguments=arguments)
            if killer.until(after_rows(killer, dice.randrange(total // 8, total // 2))):
                killed = kill_node(dice.choice(found["raylets"]))
                print(f"  killed a node ({killed} processes)", flush=True)
            killer.finish()
            return judge(place, spec, expected, seed, 1, problems=killer.problems)
