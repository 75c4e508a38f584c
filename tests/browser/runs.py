"""Runs and artifacts that a browser has led to, as the server's API knows them."""

import time
from typing import TYPE_CHECKING
from uuid import UUID

from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterName,
)

from deployments.stack.registration import prefect_client
from deployments.stack.stack import Stack

if TYPE_CHECKING:
    from prefect.client.schemas.objects import Artifact, FlowRun

LOOK_EVERY_SECONDS = 0.5
RUN_SECONDS = 240.0


def deployment_id(stack: Stack, name: str) -> UUID:
    """A deployment of the batch-inference flow."""
    with prefect_client(stack.state) as client:
        return client.read_deployment_by_name(f"batch-inference/{name}").id


def run_named(stack: Stack, name: str, *, num_tasks: int | None = None) -> "FlowRun":
    """A run, when it has ended; or as soon as so many of its tasks have begun.

    Raises:
        TimeoutError: it takes too long.
    """
    named = FlowRunFilter(name=FlowRunFilterName(any_=[name]))
    until = time.monotonic() + RUN_SECONDS
    with prefect_client(stack.state) as client:
        while time.monotonic() < until:
            begun = len(client.read_task_runs(flow_run_filter=named)) if num_tasks else 0
            for run in client.read_flow_runs(flow_run_filter=named):
                if run.state and (run.state.is_final() or (num_tasks and begun >= num_tasks)):
                    return run
            time.sleep(LOOK_EVERY_SECONDS)
    raise TimeoutError(f"{name}: not there within {RUN_SECONDS:g} s")


def artifacts_of(stack: Stack, run: "FlowRun") -> "dict[str | None, Artifact]":
    """A run's artifacts by key."""
    mine = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
    with prefect_client(stack.state) as client:
        return {each.key: each for each in client.read_artifacts(artifact_filter=mine)}
