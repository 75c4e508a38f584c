"""The time limit of an async flow that calls one of ours: it waits itself, and cannot end that."""

import asyncio

from anyio import current_effective_deadline

from tasks.spec import BatchInferenceSpec
from tasks.timeouts import Deadline

CALLERS = "timeout_seconds of the flow that called it had left,"


def deadline_of(spec: BatchInferenceSpec) -> Deadline:
    """When a run that starts now has to be done: by its own limit, or its caller's if sooner."""
    own, left = Deadline.of(spec), seconds_of_caller()
    if left is None or (own.run_seconds is not None and own.run_seconds < left):
        return own
    return Deadline(left, set_by=CALLERS)


def seconds_of_caller() -> float | None:
    """What an async flow, in whose thread this is, has left of its time; None without a limit."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    if asyncio.current_task() is None:
        return None
    left = current_effective_deadline() - loop.time()
    return None if left == float("inf") else max(0.0, left)
