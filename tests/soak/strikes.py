"""Faults that come from outside of the run's own process."""

import random
import time
from contextlib import suppress

import psutil

from tests.chaos.matrix.clusters import kill_tree
from tests.chaos.matrix.scene import is_at_work
from tests.chaos.processes import GONE, marked, role
from tests.ray_cluster import RayCluster
from tests.soak.drawn import Strike
from tests.soak.specs import Site
from tests.soak.stand import Run, Stand
from tests.storage_faults.faulty_s3 import Behave, Fault, Request

PASSING = (
    Fault(500, "InternalError"),
    Fault(503, "SlowDown"),
    Fault(429, "TooManyRequests"),
    Fault(pause_seconds=0.02),
)
NO_WORK = ("IDLE", "Agent")
SHARE = 0.04
"""Of the requests that fail."""


def strike(stand: Stand, run: Run, what: Strike, site: Site, rows: int) -> int:
    """Wait for the moment and strike; how many processes were killed."""
    started, before = time.monotonic(), handed(site)
    while run.is_alive and not is_time(what, started, handed(site) - before, rows):
        time.sleep(0.02)
    dice = random.Random(what.moment)
    doomed = processes(stand, run, what.fault, dice)
    if what.fault == "node":
        node = dice.choice(stand.clusters.start().raylets)
        return kill_tree(node)
    killed = 0
    for process in doomed:
        with suppress(*GONE):
            process.kill()
            killed += 1
    return killed


def is_time(what: Strike, started: float, done: int, rows: int) -> bool:
    """Whether the moment has come: so many seconds, or so many rows done of all."""
    if what.moment < 0:
        return time.monotonic() - started > -what.moment
    return done > what.moment * rows


def handed(site: Site) -> int:
    """Rows that the model was handed, in all runs of the case."""
    found = [file.read_text().split("\n")[:-1] for file in site.notes.glob("*.log")]
    return sum(int(line) for lines in found for line in lines)


def processes(stand: Stand, run: Run, fault: str, dice: random.Random) -> list[psutil.Process]:
    """Whom a fault kills."""
    if fault in ("worker", "replica"):
        workers = workers_of(stand.clusters.start())
        wanted = [each for each in workers if fault == "worker" or is_at(each, "infer")]
        return [dice.choice(wanted)] if wanted else []
    followers = [psutil.Process(run.process.pid)] if run.is_alive else []
    drivers = [each for each in marked(str(run.log)) if role(each) == "driver"]
    return {"follower": followers, "driver": drivers, "job": followers + drivers}.get(fault, [])


def workers_of(cluster: RayCluster) -> list[psutil.Process]:
    """Processes at work on any node."""
    found = []
    for raylet in (*cluster.raylets, cluster.head["raylet"]):
        with suppress(*GONE):
            children = psutil.Process(raylet).children()
            found += [each for each in children if is_at(each, "")]
    return found


def is_at(process: psutil.Process, stage: str) -> bool:
    """Whether a worker does something, or something of a stage.

    Agents bear such names too; with one of them its whole node goes.
    """
    with suppress(*GONE, IndexError):
        title = process.cmdline()[0]
        return is_at_work(title, stage) and not any(each in title for each in NO_WORK)
    return False


def failing_now_and_then(dice: random.Random) -> Behave:
    """Requests that fail, each for itself."""

    def behave(asked: Request) -> Fault | None:
        return dice.choice(PASSING) if dice.random() < SHARE else None

    return behave
