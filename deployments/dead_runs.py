"""Automations that end runs of which nobody would say that they are over, and start them again."""

from datetime import timedelta

from prefect.automations import Automation, ChangeFlowRunState, EventTrigger, Posture
from prefect.client.schemas.objects import StateType

from flows.cancellation import RETRIED, UNSTARTED
from flows.heartbeats import EVERY_SECONDS, HEARTBEAT, LEFT
from tasks.counted import counted

FLOWS = ["batch-inference", "redrive", "backfill"]
"""They publish: one that has died is started again, and somebody is told of one that fails."""
ALL_FLOWS = [*FLOWS, "preview", "verify", "search"]
"""With those that a person waits for, who starts them again or does not."""
ENDS = ["Completed", "Failed", "Cancelled", "Crashed"]
SUSPENDED = "Suspended"
"""Its process has ended, and another one goes on where somebody resumes it."""
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


def end_silent_runs(silent_seconds: float = SILENT_HEARTBEATS * EVERY_SECONDS) -> Automation:
    """A run whose process died together with its worker: nobody is left to say that it crashed.

    One that was cancelled or suspended, or has ended, is left as it is. One that was never heard
    is not taken for dead: perhaps its heartbeats, which need WebSockets, do not get through.

    Args:
        silent_seconds: without a heartbeat.
    """
    within = timedelta(seconds=silent_seconds)
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
            expect={HEARTBEAT, LEFT, *(f"prefect.flow-run.{each}" for each in (*ENDS, SUSPENDED))},
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
        message=f"it has not started in {counted(minutes, 'minute')}: its worker is gone, or no "
        "machine was available",
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
        # Not by force: Prefect would still take it for one whose process tries again, where the
        # flow has `retries`, and give it to no worker.
        state=StateType.SCHEDULED,
        name="AwaitingRetry",
        message=RETRIED,
        force=False,
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
        state=StateType.SCHEDULED, name="AwaitingRetry", message=UNSTARTED, force=False
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
