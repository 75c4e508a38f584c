"""The plan as a task, which a deployment's run tries again while a storage or a cluster is away."""

from typing import Any, ParamSpec, TypeVar

from prefect import Task, task

from flows.deployment_run import is_deployment_run
from tasks.errors import BatchInferenceError
from tasks.plan import PlannedRun, make_plan
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec

WAITS_SECONDS = (10.0, 20.0, 30.0, *[60.0] * 9)
"""Ten minutes, as long as a run that is under way waits for the same."""

ANSWERS = (FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError)
"""What a storage that is there says."""

plan = task(name="plan", persist_result=False, retries=0)(make_plan)
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
