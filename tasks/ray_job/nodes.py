"""Before anything is held: whether the cluster has room, and whether each node can do the job."""

import errno
import hashlib
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tasks.errors import BatchInferenceError, InvalidSpec, Unreachable
from tasks.kinds.clusters import RemoteCluster
from tasks.kinds.models.model import Model
from tasks.kinds.places import check_source
from tasks.kinds.steps.step import Step
from tasks.machine import GIB
from tasks.ray_job.cluster_capacity import (
    Node,
    cores_beside,
    in_gib,
    refuse_crowded,
    refuse_unmet,
    requests_of,
)
from tasks.ray_job.job import PIP_SECONDS, Job
from tasks.ray_job.stage_functions import importable
from tasks.spec import BatchInferenceSpec

LOOK_EVERY_SECONDS = 2.0
NODES_BACK_SECONDS = 60.0
PROBE_SECONDS = 120.0
TAKEN_AWAY = {1, 4}
"""Ray's numbers of a node's end that was asked for, and of one that an autoscaler ends idle."""
LEFT_AT_HOME = "files listed in a .gitignore or .rayignore in it, and tests/, are not sent here"
"""What keeps code, or weights beside it, from a node, where all was well before."""
REFUSALS = (PermissionError, FileNotFoundError, NotADirectoryError)
"""What a storage says that will not say otherwise in a moment."""


def await_room(job: Job, tell: Callable[[str], None]) -> None:
    """Wait for nodes that can hold the stages, as long as the spec says.

    Args:
        job: asks.
        tell: called every now and then with what it waits for; what it raises ends the wait.

    Raises:
        InvalidSpec: they cannot, and none that could have come.
    """
    cluster = job.spec.cluster
    patience = cluster.wait_for_nodes_seconds if isinstance(cluster, RemoteCluster) else 0.0
    if job.attempt > 1:  # a cluster that was just replaced answers before all its nodes are there
        patience = max(patience, NODES_BACK_SECONDS)
    until = time.monotonic() + patience
    has_asked = False
    try:
        while True:
            try:
                nodes = nodes_now()
                refuse_unmet(job.spec, nodes, "the largest node of the cluster")
                return refuse_crowded(job.spec, nodes, job.stages)
            except InvalidSpec as error:
                if time.monotonic() >= until:
                    waited = f" (after {patience:.0f} s of waiting for nodes)" if patience else ""
                    raise InvalidSpec(f"{error}{waited}") from error
                lacking = f"nodes, {patience:.0f} s at most: {error.message}"
            has_asked = True
            ask_autoscaler(bundles_of(job.spec))
            tell(lacking)
            time.sleep(LOOK_EVERY_SECONDS)
    finally:
        # What is asked for stays asked for, by nobody, and keeps its nodes for ever. From here on
        # it is the job's replicas that need them. A driver that was killed has left it asked for.
        if has_asked or job.attempt > 1:
            ask_autoscaler([])


def nodes_now(avoid: tuple[str, ...] = ()) -> list[Node]:
    """What each live node has, but for those to leave out."""
    return [
        in_gib(node["Resources"])
        for node in ray.nodes()
        if node["Alive"] and node["NodeID"] not in avoid
    ]


def nodes_lost() -> frozenset[str]:
    """Ray's ids of nodes that have died, but for those that somebody has taken away."""
    dead = (node for node in ray.nodes() if not node["Alive"])
    return frozenset(node["NodeID"] for node in dead if node["DeathReason"] not in TAKEN_AWAY)


def ask_autoscaler(bundles: list[dict[str, float]]) -> None:
    """Tell the autoscaler, where there is one, what is needed, in place of what was before."""
    from ray.autoscaler.sdk import request_resources

    request_resources(bundles=bundles)


def bundles_of(spec: BatchInferenceSpec) -> list[dict[str, float]]:
    """What the replicas and a worker beside them need, as Ray counts it."""
    infer = requests_of(spec)[0]
    bundle = {name: amount for name, amount in infer.resources.items() if amount}
    if "memory" in bundle:
        bundle["memory"] *= GIB
    return [*[bundle] * infer.workers, {"CPU": cores_beside(spec)}]


def check_nodes(job: Job, tell: Callable[[str], None]) -> None:
    """See that every node can import the code and reach inputs, output and model.

    Args:
        job: asks.
        tell: called every now and then with what it waits for; what it raises ends the wait.

    Raises:
        InvalidSpec: names the node and what it lacks.
        Unreachable: a node does not reach a storage, cannot set up the environment, or does not
            answer; says which node, where others can do the job.
    """
    digest = own_digest()
    alive = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] not in job.avoid]
    addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in alive}
    probes = {
        node_id: probe.options(
            num_cpus=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
        ).remote(job, digest, address)
        for node_id, address in addresses.items()
    }
    for node_id, found in probes.items():
        try:
            problem = answer_of(found, job, addresses[node_id], tell)
        except Unreachable as error:
            problem = error
        except ray.exceptions.RuntimeEnvSetupError as error:
            # The head's node could, for the driver: this one may in a moment.
            problem = Unreachable(
                f"node {addresses[node_id]}: cannot set up environment.pip or working_dir: {error}"
            )
        except ray.exceptions.RayError:
            if any(node["NodeID"] == node_id and node["Alive"] for node in ray.nodes()):
                raise
            continue  # it died meanwhile, and is of no concern
        if problem is not None:
            others = [each for other, each in probes.items() if other != node_id]
            if problem.can_retry and any_is_well(others):
                problem.node = node_id  # another attempt leaves it out, where others have room
            raise problem


def any_is_well(probes: list[Any]) -> bool:
    """Whether some node can do the job, as far as they have said so."""
    if not probes:
        return False
    ready = ray.wait(probes, num_returns=len(probes), timeout=LOOK_EVERY_SECONDS)[0]
    for found in ready:
        with suppress(ray.exceptions.RayError):
            if ray.get(found) is None:
                return True
    return False


def answer_of(
    found: Any, job: Job, address: str, tell: Callable[[str], None]
) -> BatchInferenceError | None:
    """What a node's probe has found, once it has.

    Raises:
        InvalidSpec: it takes too long, and has packages to install.
        Unreachable: it takes too long, and has none.
    """
    patience = PIP_SECONDS if job.spec.environment.pip else PROBE_SECONDS
    until = time.monotonic() + patience
    while not ray.wait([found], timeout=LOOK_EVERY_SECONDS)[0]:
        if time.monotonic() >= until:
            late = f"node {address}: did not answer within {patience:.0f} s"
            if job.spec.environment.pip:
                raise InvalidSpec(
                    f"{late}: perhaps it cannot set up environment.pip; see its "
                    "runtime_env_agent.log"
                )
            raise Unreachable(
                f"{late}: it may be overloaded, or it cannot reach the storage of source, sink or "
                "model; see the node's log in Ray's dashboard"
            )
        tell(f"node {address} to say that it can do the job, {patience:.0f} s at most")
    problem: BatchInferenceError | None = ray.get(found)
    return problem


# Nodes that share a machine unpack our code into one folder, each of them anew: for a moment a
# file may be gone.
@ray.remote(max_retries=2, retry_exceptions=[OSError])
def probe(job: Job, digest: str, address: str) -> BatchInferenceError | None:
    """What keeps this node from doing the job; None where nothing does."""
    try:
        if own_digest() != digest:
            here = Path(__file__).resolve().parents[1]
            raise InvalidSpec(
                f"another version of this project is at {here}: remove it, or rename your own "
                "folder `tasks`"
            )
        spec = importable(job)
        check_source(spec.source.as_planned(reader_of(job)))
        for part in (*spec.steps, spec.model):
            check_part(part, spec)
        check_writing(job, address)
    except BatchInferenceError as error:
        return type(error)(f"node {address}: {error.message}")
    return None


def check_part(part: Step | Model, spec: BatchInferenceSpec) -> None:
    """See that a step, or the model, can do its part here.

    Raises:
        InvalidSpec: it cannot; of code that has come from elsewhere, says what may be missing.
    """
    try:
        part.check()
    except InvalidSpec as error:
        if any(part.own_code.values()) and isinstance(spec.cluster, RemoteCluster):
            problem = f"{error.message}; of environment.working_dir {LEFT_AT_HOME}"
            raise type(error)(problem) from error
        raise


def reader_of(job: Job) -> dict[str, Any]:
    """Settings that the source is read with; in a redrive, those of one of the runs it redoes."""
    readers: dict[str, Any] = job.pins.get("readers", {})
    return job.pins["reader"] or next(iter(readers.values()), {})


def check_writing(job: Job, address: str) -> None:
    """See that the output can be written from here, and is the one that all nodes write to.

    Raises:
        InvalidSpec: it cannot, or the path leads elsewhere on this node.
        Unreachable: the storage does not answer.
    """
    mark = f"{job.folder}/nodes/{uuid.uuid4().hex}"
    try:
        if job.storage.stat(f"{job.folder}/job.json") is None:
            problem = "is another folder there, whose rows would not be found: use one that all "
            problem += "nodes share, or an object store"
            raise InvalidSpec.at("sink.path", job.spec.sink.path, problem)
        job.storage.write(mark, address.encode())
        job.storage.delete(mark)
    except OSError as error:
        problem = f"sink.path: cannot be written: {error}"
        if isinstance(error, REFUSALS) or error.errno == errno.EROFS:
            raise InvalidSpec(problem) from error
        raise Unreachable(problem) from error


def own_digest() -> str:
    """Digest of this project's code as this process has it."""
    package = Path(__file__).resolve().parents[1]
    content = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return content.hexdigest()[:16]
