"""What ends a run from outside, told in words of ours: Prefect and Python know signals."""

from asyncio import CancelledError

from prefect.context import FlowRunContext
from prefect.exceptions import TerminationSignal

from tasks.errors import RunStopped, RunTimedOut


def told_as(error: BaseException) -> BaseException:
    """What a report says of an error: one that comes from outside has no words for it."""
    if isinstance(error, CancelledError):
        return RunTimedOut(f"{why_cancelled()}; run it again to continue where it stopped")
    if isinstance(error, (KeyboardInterrupt, TerminationSignal)):
        return RunStopped(
            "stopped by hand (Ctrl-C or Prefect) or by a signal, such as a machine's shutdown; "
            "run it again to continue where it stopped"
        )
    return error


def why_cancelled() -> str:
    """Why Prefect has ended a flow from within."""
    context = FlowRunContext.get()
    limit = context and context.flow and context.flow.timeout_seconds
    if limit:
        return f"the run took longer than timeout_seconds {limit:g} of its flow"
    return (
        "Prefect ended the flow run: timeout_seconds of the flow that called it are over, or it "
        "lost its slot of a concurrency limit"
    )
