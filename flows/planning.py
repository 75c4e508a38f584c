"""The plan as a task, which a deployment's run tries again while a storage or a cluster is away."""

import math
import time
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from prefect import Task, get_run_logger, task
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State

from flows.cancellation import refuse_cancelled_meanwhile
from flows.deployment_run import is_deployment_run
from tasks.errors import BatchInferenceError, OutputHeld
from tasks.plan import PlannedRun, make_plan
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec

WAITS_SECONDS = (10.0, 20.0, 30.0, *[60.0] * 9)
"""Ten minutes, as long as a run that is under way waits for the same."""

ANSWERS = (FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError)
"""What a storage that is there says."""

LOOK_EVERY_SECONDS = 10.0
"""At a process that is waited for."""
ENDS_SECONDS = 3600.0
"""For processes that are to end: one that hangs would have all nights wait, and nobody told."""
OF_CALLER = (
    "the flow run that called this one is at work in another process too, as where it was begun "
    "twice, and this one would replace what that has replaced"
)


@task(name="plan", persist_result=False, retries=0)
def plan(spec: BatchInferenceSpec, options: RunOptions) -> PlannedRun:
    """Plan a run, once no other process is at work on it for the same flow run.

    A worker says twice of a process that it was killed, and a server may take one for dead that
    lives: each time the flow run is begun once more. Were this one to fail, so would the flow run
    whose other process goes on, or is done by the time that the next run is at work. Nor is a run
    to fail that comes next, and sooner than the one before it has ended.

    Raises:
        BatchInferenceError: as `make_plan`.
        RunStopped: somebody has cancelled the flow run meanwhile.
    """
    own, has_waited, until = options.flow_runs, False, 0.0
    if options.makes_new_version(spec):
        own = own[:1]  # what another one's run has replaced for the same caller stays as it is
    while True:
        try:
            return make_plan(spec, options)
        except OutputHeld as error:
            is_own = not set(error.flow_runs).isdisjoint(own)
            if error.is_over is None or not (is_own or has_waited or is_ending(error.flow_runs)):
                if not set(error.flow_runs).isdisjoint(options.flow_runs):
                    raise OutputHeld(f"{OF_CALLER}: {error}") from error
                raise
            told = "this flow run was started twice and waits for its other process: %s"
            if is_own:
                until = math.inf  # and for whoever is at work after that
            else:
                until = until or time.monotonic() + ENDS_SECONDS
                told = (
                    "this flow run waits for another one that is ending, or that has followed "
                    "its job: %s"
                )
            get_run_logger().warning(told, error)
            while not error.is_over():
                if time.monotonic() > until:
                    raise
                time.sleep(LOOK_EVERY_SECONDS)
            refuse_cancelled_meanwhile()
            has_waited = True


def is_ending(flow_runs: tuple[str, ...]) -> bool:
    """Whether a run is over to Prefect, or is to be, whose process is still there, or seems to be.

    As one that was cancelled a moment ago, or killed on a machine of its own, which its silence
    alone tells: a queue has begun a deployment's run by then that was to come after it. Where a
    flow goes on that has called it, so does their process, for hours perhaps: and may come to wait
    for who waits for it.

    Args:
        flow_runs: ids of its flow run and of the one that has started it, where there is one.
    """
    if not (flow_runs and is_deployment_run()):
        return False
    try:
        with get_client(sync_client=True) as client:
            runs = [client.read_flow_run(UUID(each)) for each in flow_runs]
    except Exception:  # they are another server's, or this one is away
        return False
    process = runs[0] if runs[0].deployment_id else runs[-1]  # a deployment's has its own
    return not (process.state and is_at_work(process.state))


def is_at_work(state: State) -> bool:
    """Whether a flow run's process has no cause to end; one that is suspended is to."""
    if state.is_paused():
        return not state.state_details.pause_reschedule
    return state.is_running() or state.is_pending()


P = ParamSpec("P")
T = TypeVar("T")


def plan_run(spec: BatchInferenceSpec, options: RunOptions) -> PlannedRun:
    """Plan a run as a task.

    Raises:
        BatchInferenceError: as `make_plan`; where trying again can help, as `patient` does.
    """
    return patient(plan)(spec, options)


def patient(once: Task[P, T]) -> Task[P, T]:
    """A task that a deployment's run tries again for ten minutes, where that can help.

    At night nobody is there to start it again after an outage; a person at the command line is,
    and is told at once.
    """
    if not is_deployment_run():
        return once
    return once.with_options(
        retries=len(WAITS_SECONDS),
        retry_delay_seconds=list(WAITS_SECONDS),
        retry_condition_fn=may_pass,
        retry_jitter_factor=0.5,  # many runs may wait for the same
    )


def may_pass(task: Any, task_run: Any, state: Any) -> bool:
    """Whether what a task failed with may pass by itself; Prefect's `retry_condition_fn`."""
    error = state.data
    if isinstance(error, BatchInferenceError):
        return error.can_retry
    return isinstance(error, OSError) and not isinstance(error, ANSWERS)
