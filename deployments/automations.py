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
    ChangeFlowRunState,
    EventTrigger,
    Posture,
    RunDeployment,
    SendNotification,
)
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.exceptions import ObjectNotFound
from prefect.settings import get_current_settings

from tasks.counted import counted
from tasks.errors import InvalidSpec

FLOWS = ["batch-inference", "redrive", "backfill"]
"""They publish: one that has died is started again, and somebody is told of one that fails."""
ALL_FLOWS = [*FLOWS, "preview", "search"]
"""With those that a person waits for, who starts them again or does not."""
ENDS = ["Completed", "Failed", "Cancelled", "Crashed"]
SUSPENDED = "Suspended"
"""Its process has ended, and another one goes on where somebody resumes it."""
HEARTBEAT = "prefect.flow-run.heartbeat"
NOT_BEGUN = ["Pending", "Submitting", "InfrastructurePending"]
"""A worker has taken it, and its process is to come."""
SCHEDULED = ["Scheduled", "Late", "AwaitingRetry", "AwaitingConcurrencySlot"]
UNSTARTED_MINUTES = 30
"""So long may a process take to begin: a node is started for it, an image of many GB loaded."""
SILENT_HEARTBEATS = 3
"""So many heartbeats of a flow run must be missing before it counts as crashed."""
MAX_RUNS = 5
"""How often a flow run is started at most, where nobody starts it by hand."""
FLOW_RUN = {"prefect.resource.id": "prefect.flow-run.*"}
OUR_FLOW = {"prefect.resource.role": "flow", "prefect.resource.name": FLOWS}
ANY_FLOW_OF_OURS = {**OUR_FLOW, "prefect.resource.name": ALL_FLOWS}
ANY_DEPLOYMENT = {
    "prefect.resource.role": "deployment",
    "prefect.resource.id": "prefect.deployment.*",
}
WHAT_HAPPENED = (
    "Flow run {{ flow_run.name }} of {{ flow.name }}: {{ flow_run.state.name }}\n"
    "{{ flow_run.state.message }}\n{{ flow_run | ui_url }}"
)


def end_silent_runs(silent_seconds: float | None = None) -> Automation:
    """A run whose process died together with its worker: nobody is left to say that it crashed.

    One that was cancelled or suspended, or has ended, is left as it is. One that was never heard
    is not taken for dead: perhaps its heartbeats, which need WebSockets, do not get through.

    Args:
        silent_seconds: without a heartbeat; where empty, three times as long as between two
            heartbeats by the settings here, which workers must share
            (PREFECT_FLOWS_HEARTBEAT_FREQUENCY, in seconds, 30 at least).
    """
    frequency = get_current_settings().flows.heartbeat_frequency or 180
    within = timedelta(seconds=silent_seconds or SILENT_HEARTBEATS * frequency)
    crashed = ChangeFlowRunState(
        state=StateType.CRASHED,
        name="Crashed",
        message=f"no heartbeat for {within.total_seconds():.0f} s: process and worker are gone",
        # By force it would end, and have started again, what is being cancelled or has ended.
        force=False,
    )
    return Automation(
        name="batch-inference: end runs that are silent",
        description="Marks a run as crashed whose process has ceased to give signs of life.",
        trigger=EventTrigger(
            posture=Posture.Proactive,
            after={HEARTBEAT},
            expect={HEARTBEAT, *(f"prefect.flow-run.{each}" for each in (*ENDS, SUSPENDED))},
            match=FLOW_RUN,
            match_related=ANY_FLOW_OF_OURS,
            for_each={"prefect.resource.id"},
            within=within,
        ),
        actions=[crashed],
    )


def end_unstarted_runs(minutes: float = UNSTARTED_MINUTES) -> Automation:
    """A run whose worker died before the run's process began: nobody else would ever take it.

    It also holds its place in a queue with a limit, where all others wait for it. Should its
    process come after all, that runs: beside another one it follows the same Ray job.

    Args:
        minutes: since a worker took it.
    """
    crashed = ChangeFlowRunState(
        state=StateType.CRASHED,
        name="Crashed",
        message=f"it has not begun in {counted(minutes, 'minute')}: its worker is gone, "
        "or no machine was to be had",
        force=False,
    )
    begun = ["Running", "Retrying", "Cancelling", *ENDS, "TimedOut", *SCHEDULED, SUSPENDED]
    return Automation(
        name="batch-inference: end runs that do not begin",
        description="Marks a run as crashed that a worker took, and that has not begun since.",
        trigger=EventTrigger(
            posture=Posture.Proactive,
            after={f"prefect.flow-run.{each}" for each in NOT_BEGUN},
            expect={HEARTBEAT, *(f"prefect.flow-run.{each}" for each in begun)},
            match=FLOW_RUN,
            match_related=ANY_FLOW_OF_OURS,
            for_each={"prefect.resource.id"},
            within=timedelta(minutes=minutes),
        ),
        actions=[crashed],
    )


def retry_crashed_runs(max_runs: int = MAX_RUNS) -> Automation:
    """A crashed run is started again by whichever worker there is, and attaches to its job.

    Args:
        max_runs: how often a run is started, the first time included.
    """
    again = ChangeFlowRunState(
        state=StateType.SCHEDULED, name="AwaitingRetry", message="retried after a crash", force=True
    )
    # None that has never begun to run: what keeps it from that, as a worker without the package,
    # keeps the next one from it too, and it would be scheduled again for ever.
    counts = [str(count) for count in range(1, max_runs)]
    return Automation(
        name="batch-inference: retry runs that crashed",
        description="Schedules a crashed run again, which is started "
        f"{counted(max_runs, 'time')} at most.",
        trigger=EventTrigger(
            posture=Posture.Reactive,
            expect={"prefect.flow-run.Crashed"},
            match={**FLOW_RUN, "prefect.run-count": counts},
            match_related=[OUR_FLOW, ANY_DEPLOYMENT],  # without one no worker would take it
        ),
        actions=[again],
    )


def retry_unstarted_runs() -> Automation:
    """A run that crashed before it had begun is tried once more, and then once an hour.

    What keeps it from beginning may be a moment's trouble, or a worker without the package: that
    one would take it again and again.
    """
    again = ChangeFlowRunState(
        state=StateType.SCHEDULED, name="AwaitingRetry", message="it had not begun", force=True
    )
    return Automation(
        name="batch-inference: retry runs that never began",
        description="Schedules a run again that crashed before it had begun, once an hour at most.",
        trigger=EventTrigger(
            posture=Posture.Reactive,
            expect={"prefect.flow-run.Crashed"},
            match={**FLOW_RUN, "prefect.run-count": ["0"]},
            match_related=[OUR_FLOW, ANY_DEPLOYMENT],
            for_each={"prefect.resource.id"},
            within=timedelta(hours=1),
        ),
        actions=[again],
    )


def alert_on_failure(block: UUID) -> Automation:
    """Somebody is told of every run that fails or crashes.

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
            match=FLOW_RUN,
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
        made.update()
    else:
        made.create()
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
            problem = "is none of this server's: name it as `prefect deployment ls` does"
            raise InvalidSpec.at("deployment", deployment, problem) from None


if __name__ == "__main__":
    for each in deploy_automations():
        print(f"automation {each}")
