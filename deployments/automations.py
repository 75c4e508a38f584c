"""Automations as code: what Prefect's server does by itself when something becomes of our runs.

`python -m deployments.automations` makes those that every server should have, or brings them up
to date; whatever else a team wants is one call each. An automation's name is its identity.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from prefect.automations import (
    Automation,
    EventTrigger,
    Posture,
    RunDeployment,
    SendNotification,
)
from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound

from deployments.dead_runs import (
    FLOW_RUN,
    OUR_FLOW,
    end_silent_runs,
    end_unstarted_runs,
    retry_crashed_runs,
    retry_unstarted_runs,
)
from deployments.named_server import named_server
from tasks.counted import counted
from tasks.errors import InvalidSpec, RunStopped
from tasks.ray_job.follower_heartbeat import STOPPED

WHAT_HAPPENED = (
    "Flow run {{ flow_run.name }} of {{ flow.name }}: {{ flow_run.state.name }}\n"
    "{{ flow_run.state.message }}\n{{ flow_run | ui_url }}"
)
NOT_STOPPED = f"!Flow run encountered an exception: {RunStopped.__name__}: {STOPPED}*"
"""What Prefect says of a run that failed for another reason than `batch-inference cancel`."""


def alert_on_failure(block: UUID) -> Automation:
    """Somebody is told of every run that fails or crashes, but for those that somebody stopped.

    Args:
        block: id of a notification block: Slack, mail, a webhook, ...
    """
    return Automation(
        name="batch-inference: alert on failure",
        description="Tells somebody of every run that fails or crashes.",
        trigger=EventTrigger(
            posture=Posture.Reactive,
            # Prefect calls failed runs by a name of their own where time was up.
            expect={f"prefect.flow-run.{end}" for end in ("Failed", "TimedOut", "Crashed")},
            match={**FLOW_RUN, "prefect.state-message": NOT_STOPPED},
            match_related=OUR_FLOW,
        ),
        actions=[notify(block, "A batch inference run failed", WHAT_HAPPENED)],
    )


def alert_when_overdue(block: UUID, deployment: str, hours: float) -> Automation:
    """Somebody is told when no run of a deployment has finished for so long.

    Args:
        block: id of a notification block.
        deployment: as in `batch-inference/pets-nightly`.
        hours: without a run that completed; more than lie between two scheduled ones.
    """
    said = f"No run of {deployment} has completed for {counted(hours, 'hour')}."
    return Automation(
        name=f"{deployment}: alert when overdue",
        description=f"Tells somebody when no run has completed for {counted(hours, 'hour')}.",
        trigger=EventTrigger(
            posture=Posture.Proactive,
            expect={"prefect.flow-run.Completed"},
            match=FLOW_RUN,
            match_related=of_deployment(deployment),
            within=timedelta(hours=hours),
        ),
        actions=[notify(block, f"{deployment} is overdue", said)],
    )


def run_on_arrival(deployment: str, event: str, resource: str) -> Automation:
    """A deployment runs when data has arrived.

    Whoever brings the data says so: `emit_event(event, {"prefect.resource.id": resource})`, a
    webhook, or the completed run of another tool. The run's ledger knows what is new.

    Args:
        deployment: as in `batch-inference/pets-nightly`.
        event: name of the event, as in `data.arrived`.
        resource: what has arrived, as in `s3://bucket/pets/*`; a star at the end stands for more.
    """
    return Automation(
        name=f"{deployment}: run when {event} at {resource}",
        description="Runs when data has arrived; what is new the run finds out by itself.",
        trigger=EventTrigger(
            posture=Posture.Reactive,
            expect={event},
            match={"prefect.resource.id": resource},
        ),
        actions=[RunDeployment(deployment_id=id_of(deployment))],
    )


def run_after(first: str, then: str) -> Automation:
    """A deployment runs when a run of another has completed.

    Args:
        first: as in `batch-inference/pets-nightly`.
        then: the deployment to run.
    """
    return Automation(
        name=f"{then}: run after {first}",
        description="Runs when a run of the other has completed.",
        trigger=EventTrigger(
            posture=Posture.Reactive,
            expect={"prefect.flow-run.Completed"},
            match=FLOW_RUN,
            match_related=of_deployment(first),
        ),
        actions=[RunDeployment(deployment_id=id_of(then))],
    )


def deploy_automations(automations: Sequence[Automation] = ()) -> list[UUID]:
    """Make automations, or bring those of the same name up to date.

    Args:
        automations: where empty, those that every server should have.
    """
    wanted = automations or (
        end_silent_runs(),
        end_unstarted_runs(),
        retry_crashed_runs(),
        retry_unstarted_runs(),
    )
    return [deployed(automation) for automation in wanted]


def deployed(automation: Automation) -> UUID:
    """Make one automation, or replace what it was; one that somebody switched off stays so."""
    with get_client(sync_client=True) as client:
        found = client.read_automations_by_name(automation.name)
    made: Any = automation  # Prefect's types leave open whether its calls must be awaited
    if found:
        made.id, made.enabled = found[0].id, found[0].enabled
        made.update(_sync=True)  # in a notebook, too, where Prefect would have it awaited
    else:
        made.create(_sync=True)
    return UUID(str(made.id))


def notify(block: UUID, subject: str, body: str) -> SendNotification:
    """Tell somebody through a notification block."""
    return SendNotification(block_document_id=block, subject=subject, body=body)


def of_deployment(name: str) -> dict[str, str]:
    """The related resource that flow runs of a deployment have."""
    return {
        "prefect.resource.role": "deployment",
        "prefect.resource.id": f"prefect.deployment.{id_of(name)}",
    }


def id_of(deployment: str) -> UUID:
    """A deployment's id by its name, as in `batch-inference/pets-nightly`.

    Raises:
        InvalidSpec: the server has none of that name.
    """
    with get_client(sync_client=True) as client:
        try:
            return UUID(str(client.read_deployment_by_name(deployment).id))
        except (ObjectNotFound, ValueError):  # the latter of a name without a flow's
            problem = "is not on this server: write it as `prefect deployment ls` shows it"
            raise InvalidSpec.at("deployment", deployment, problem) from None


if __name__ == "__main__":
    with named_server():
        for each in deploy_automations():
            print(f"automation {each}")
