"""Nodes on which a stage could not be set up, as by loading the model, and that others replace."""

from dataclasses import replace

import ray

from tasks.errors import InvalidSpec, StageFailed
from tasks.ray_job.cluster_capacity import refuse_crowded, refuse_unmet
from tasks.ray_job.job import Job
from tasks.ray_job.nodes import nodes_now
from tasks.ray_job.result import cause_of

NODE_ID_LABEL = "ray.io/node-id"


def leaving_out(job: Job) -> Job:
    """The job, with the nodes to leave out that are there; with none where it needs all it gets."""
    if not job.avoid:
        return job
    there = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    avoid = tuple(node for node in job.avoid if node in there)
    if not avoid:
        return replace(job, avoid=())
    names = ", ".join(there[node] for node in avoid)
    try:
        refuse_unmet(job.spec, nodes_now(avoid), "the largest node of the cluster")
        refuse_crowded(job.spec, nodes_now(avoid), job.stages)
    except InvalidSpec:
        print(f"node {names}: used again, since no other node has room", flush=True)
        return replace(job, avoid=())
    print(f"node {names}: left out, since a stage could not be set up there before", flush=True)
    return replace(job, avoid=avoid)


def elsewhere(job: Job) -> dict[str, str] | None:
    """A label selector for nodes that are not left out."""
    return {NODE_ID_LABEL: f"!in({','.join(job.avoid)})"} if job.avoid else None


def raise_of_node(error: Exception) -> None:
    """Raise an error of the spec as one of a node: on others rows were predicted with it.

    Raises:
        StageFailed: another attempt leaves that node out.
    """
    known = cause_of(error)
    if isinstance(known, InvalidSpec) and known.node:
        failed = StageFailed(f"on a node, unlike others: {known.message}").locate("infer")
        failed.node = known.node
        raise failed from error
