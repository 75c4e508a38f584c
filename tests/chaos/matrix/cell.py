"""Runs one cell: a job, a fault in mid-run, and a look at what is left."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from tests.chaos.compare import Rows, compare
from tests.chaos.matrix.clusters import Clusters
from tests.chaos.matrix.faults import FAULTS, Fault
from tests.chaos.matrix.job import SECONDS, whole_output, write_job
from tests.chaos.matrix.jobs_watch import JobsWatch
from tests.chaos.matrix.link import Link
from tests.chaos.matrix.namespaces import AUTH, NoNamespacesError, cluster_in, network
from tests.chaos.matrix.noted import read_notes
from tests.chaos.matrix.orchestrators import ByCommand, ByWorker, Orchestrator
from tests.chaos.matrix.proxy import Proxy
from tests.chaos.matrix.result import Result
from tests.chaos.matrix.scene import Scene
from tests.chaos.processes import GONE, marked
from tests.chaos.session import Place, Session

AWAY = 1.4
"""A stage is struck before half of it is done."""
LEFT_SECONDS = 180.0
"""How long processes may take to end after a run: a replica that Ray has lost sight of ends itself
after two minutes or more."""
RAYS_OWN = ("ray::_StatsActor", "ray::_Autoscaling", "ray::ActorLocationTracker")
"""Ray Data starts these once on a cluster and keeps them, with the environment of its first job."""
NODES_SECONDS = 120
"""A new cluster answers before its nodes have joined."""


@dataclass
class Stand:
    """What cells share."""

    session: Session
    clusters: Clusters
    expected: Rows
    seconds: float
    """How long a job's slow stage takes, where nothing more is asked for."""


@contextmanager
def stand(shared: Session, seconds: float = SECONDS) -> Iterator[Stand]:
    """Clusters of their own."""
    clusters = Clusters(shared.folder, shared.environment)
    try:
        yield Stand(shared, clusters, whole_output(), seconds)
    finally:
        clusters.kill()


def run_cell(shared: Stand, fault: str, stage: str, seed: int) -> Result:
    """Run one cell; that it breaks is a result too."""
    begun = time.monotonic()
    result = Result(fault, stage, seed)
    try:
        with place_of(shared, f"{fault}-{stage}-{seed}") as place:
            result = strike(shared, place, result)
    except NoNamespacesError as error:
        result = replace(result, skipped=str(error))
    except Exception as error:
        result = replace(result, problems=(f"{type(error).__name__}: {error}",))
        shared.clusters.kill()
    if FAULTS[fault].spoils_cluster:
        shared.clusters.kill()
    return replace(result, seconds=round(time.monotonic() - begun, 1))


@contextmanager
def place_of(shared: Stand, name: str) -> Iterator[Place]:
    """A cell's place; what still runs there at the end is killed, but for Ray's own."""
    folder = shared.session.folder / name
    for part in ("in", "log"):
        (folder / part).mkdir(parents=True)
    place = Place(folder, shared.session.environment)
    try:
        yield place
    finally:
        for process in running(place):
            with suppress(*GONE):
                process.kill()


def strike(shared: Stand, place: Place, result: Result) -> Result:
    """Run the job, strike it, wait for its end, and look."""
    fault = FAULTS[result.fault]
    with (
        site(shared, place, fault) as (link, address),
        JobsWatch(address, place.environment.get("RAY_AUTH_TOKEN", "")) as watch,
    ):
        orchestrator = prepare(place, fault, result, link.address, shared.seconds)
        unstruck = place.log / "unstruck"
        if result.stage == "infer":
            unstruck.touch()
        orchestrator.start()
        dice = random.Random(f"{result.seed} {result.fault} {result.stage}")
        scene = Scene(shared.clusters, place, result.stage, dice, orchestrator, watch, link)
        rows = scene.await_mid_run()
        unstruck.unlink(missing_ok=True)
        struck = fault.strike(scene)
        problem = orchestrator.wait()
        ended = time.time()
        problems = [problem] if problem else []
        problems += [f"job {each} still lives" for each in watch.await_none(LEFT_SECONDS)]
        problems += [f"is left: {each}" for each in left_processes(place)]
    jobs = len(watch.seen)
    if watch.most_at_once > 1:
        problems.append(f"{watch.most_at_once} jobs lived at once")
    if jobs > fault.jobs:
        problems.append(f"{jobs} jobs were submitted")
    found = compare(place.folder / "out", shared.expected)
    noted = read_notes(place.log)
    progress = "stored" if result.stage == "write" else "went"  # a quick model is ahead of records
    pause = round(noted.pause(progress, struck.since, ended), 1)
    recovery = pause if struck.attach_seconds is None else round(struck.attach_seconds, 1)
    return replace(
        result,
        struck_at_rows=rows,
        recovery=recovery,
        pause=pause,
        redone=noted.redone,
        jobs=jobs,
        rows=found.rows,
        lost=found.lost,
        doubled=found.doubled,
        problems=tuple(problems),
    )


@contextmanager
def site(shared: Stand, place: Place, fault: Fault) -> Iterator[tuple[Link, str]]:
    """A cluster: the orchestrator's way to it, and the URL of its Jobs API."""
    if fault.own_addresses:
        folder = shared.session.folder / "n"  # short, as sockets lie in there
        folder.mkdir(exist_ok=True)
        with network() as made, cluster_in(made, folder, place.environment):
            place.environment = {**place.environment, **AUTH}
            yield made, made.address
    else:
        place.environment = {**place.environment, **shared.clusters.start().environment}
        with Proxy(shared.clusters.port) as proxy:
            yield proxy, shared.clusters.address


def prepare(
    place: Place, fault: Fault, result: Result, address: str, seconds: float
) -> Orchestrator:
    """Write the job and say who runs it; its slow stage takes `seconds` where nobody is away."""
    cluster = {
        "kind": "ray_jobs",
        "address": address,
        "python": sys.executable,
        "wait_for_nodes_seconds": NODES_SECONDS,
    }
    seconds += AWAY * fault.away_seconds(result.stage)
    spec = write_job(place, result.stage, cluster, seconds)
    return ByWorker(place, spec) if fault.by_worker else ByCommand(place, spec)


def left_processes(place: Place) -> list[str]:
    """Processes of the cell that do not end, and what their threads are at."""
    until = time.monotonic() + LEFT_SECONDS
    while (left := running(place)) and time.monotonic() < until:
        time.sleep(0.3)
    return [f"{title(process)}: {stacks_of(process)}" for process in left]


def stacks_of(process: psutil.Process) -> str:
    """The stacks of a process's threads; it happens too rarely to be looked for another time."""
    command = [str(Path(sys.executable).with_name("py-spy")), "dump", "--pid", str(process.pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout or done.stderr


def running(place: Place) -> list[psutil.Process]:
    """Processes of the cell that should end with its run."""
    return [each for each in marked(place.mark) if not title(each).startswith(RAYS_OWN)]


def title(process: psutil.Process) -> str:
    """What a process is called."""
    try:
        return " ".join(process.cmdline())[:80]
    except GONE:
        return "gone"
