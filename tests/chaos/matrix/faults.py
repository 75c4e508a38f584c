"""What can happen to a job on a cluster elsewhere, and what it may cost."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.matrix.clusters import kill_tree
from tests.chaos.matrix.link import Cut
from tests.chaos.matrix.scene import Scene

DEAD_SECONDS = 5.0
"""How long there is no cluster."""
LONG_CUT_SECONDS = 45.0
"""Longer than a job may be silent; it writes its progress all the while."""
CUTS: dict[str, tuple[Cut, float]] = {
    "read": ("refuse", 15.0),
    "preprocess": ("drop", 15.0),
    "infer": ("drop", LONG_CUT_SECONDS),
    "write": ("refuse", LONG_CUT_SECONDS),
}
"""How the network is cut, and for how long: no stage has a code path of its own here."""


@dataclass(frozen=True)
class Struck:
    """When a fault struck, and when what it took was there again."""

    at: float
    since: float
    attach_seconds: float | None = None


@dataclass(frozen=True)
class Fault:
    """One fault."""

    strike: Callable[[Scene], Struck]
    goal_seconds: float
    away_seconds: Callable[[str], float] = lambda stage: 0.0
    """How long it takes until what is struck is back, by stage: it is to find the job at work."""
    jobs: int = 1
    """How many jobs may be submitted for the run, the first included."""
    spoils_cluster: bool = False
    own_addresses: bool = False
    """Whether the cluster is one in network namespaces."""
    by_worker: bool = False
    """Whether a worker of Prefect's runs the flow."""
    stages: tuple[str, ...] = ("read", "preprocess", "infer", "write")


def at_once() -> Struck:
    """What was taken is there again, for whoever asks for it."""
    return Struck(time.time(), time.time())


def worker(scene: Scene) -> Struck:
    """SIGKILL the process at work on the stage."""
    scene.worker().kill()
    return at_once()


def raylet(scene: Scene) -> Struck:
    """SIGKILL the node where the stage is at work: its raylet, and all workers."""
    running = scene.clusters.start()
    process = scene.worker(running.raylets)
    kill_tree(process.ppid())
    return at_once()


def driver(scene: Scene) -> Struck:
    """SIGKILL the job's driver on the head."""
    scene.driver().kill()
    return at_once()


def head(scene: Scene) -> Struck:
    """SIGKILL the whole cluster, head and nodes."""
    return replaced(scene, scene.clusters.kill)


def head_alone(scene: Scene) -> Struck:
    """SIGKILL the head with its driver; workers on the old nodes may still write for a while."""
    return replaced(scene, scene.clusters.kill_head)


def gcs(scene: Scene) -> Struck:
    """SIGKILL the head's GCS and dashboard; the old driver lives on, where nobody can ask it."""
    return replaced(scene, scene.clusters.kill_gcs)


def replaced(scene: Scene, kill: Callable[[], None]) -> Struck:
    """Kill; seconds later there is a new cluster at the same address, which knows of no job."""
    kill()
    killed = time.time()
    time.sleep(DEAD_SECONDS)
    scene.clusters.start()
    return Struck(killed, scene.watch.answered_after(killed))


def flow(scene: Scene) -> Struck:
    """SIGKILL whoever runs the flow, and run it again at once, while the model waits for it."""
    with scene.held():
        killed = scene.orchestrator.kill_and_start()
        return Struck(killed, killed, scene.attached_after(killed))


def network(scene: Scene) -> Struck:
    """Cut the network between flow and cluster for a while."""
    how, seconds = CUTS[scene.stage]
    begun = time.time()
    scene.link.cut(how)
    time.sleep(seconds)
    scene.link.restore()
    return Struck(begun, begun)


FAULTS: dict[str, Fault] = {
    "worker": Fault(worker, 10),
    "raylet": Fault(raylet, 30, spoils_cluster=True),
    "driver": Fault(driver, 60, jobs=2),
    "head": Fault(head, 60, jobs=2),
    "head-alone": Fault(head_alone, 60, jobs=2, spoils_cluster=True),
    "gcs": Fault(gcs, 60, jobs=2, spoils_cluster=True),
    "flow": Fault(flow, 5),
    "network": Fault(network, 5, lambda stage: CUTS[stage][1]),
    "namespaces": Fault(
        network, 5, lambda stage: CUTS[stage][1], own_addresses=True, stages=("infer",)
    ),
    "prefect-worker": Fault(flow, 5, by_worker=True),
}
