"""The tasks of an attempt's stages: begun one after the other, and waited for."""

from threading import Event
from typing import Any

from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError
from prefect.context import FlowRunContext
from prefect.futures import PrefectFuture
from prefect.task_runners import ThreadPoolTaskRunner

from tasks.attempt import Attempt
from tasks.errors import InvalidSpec, Unreachable
from tasks.ray_job.result import failure
from tasks.stages import follow_stage
from tasks.timeouts import Deadline

WAKES_EVERY_SECONDS = 1.0
"""Who ends a flow from within, as its `timeout_seconds` do where that is not in the main thread, is
heard between two waits only."""


def refuse_other_processes() -> None:
    """See that the flow's tasks run in this process, where they follow the job.

    Raises:
        InvalidSpec: they would run in others, to which no attempt can be passed on.
    """
    context = FlowRunContext.get()
    runner = context and context.task_runner
    if runner is not None and not isinstance(runner, ThreadPoolTaskRunner):
        raise InvalidSpec(
            f"task_runner: {type(runner).__name__} starts tasks in other processes, and a stage's "
            "task follows the job in the flow's own: leave task_runner out, or use "
            "ThreadPoolTaskRunner. How much runs at a time is set in stages and resources"
        )


def run_stages(attempt: Attempt, deadline: Deadline) -> None:
    """A task for each stage, from its first row on, until all are done or one failed.

    Raises:
        BatchInferenceError: what the failing stage raised.
        RunTimedOut: the run's time is up.
        Unreachable: Prefect does not let a task begin.
    """
    futures: list[PrefectFuture[Any]] = []
    try:
        for stage in attempt.job.stages:
            if futures:
                attempt.await_stage(stage, deadline, lambda: refuse_unbegun(futures))
            futures.append(follow_stage.submit(stage, attempt))
        for future in futures:
            await_end(future, deadline)
        for future in futures:
            future.result(raise_on_failure=future.state.is_failed())
        # A stage may be blamed whose task was done: Ray has read once more what a node has lost.
        if attempt.last.result and (error := failure(attempt.last.result)):
            raise error
    except ConcurrencySlotAcquisitionError as error:
        raise Unreachable(f"Prefect does not let the task of a stage begin: {error}") from error
    finally:
        attempt.stop()


def refuse_unbegun(futures: list[PrefectFuture[Any]]) -> None:
    """Raise what has kept a task from beginning: nobody else would hear of that."""
    for future in futures:
        future.wait(0)


def await_end(future: PrefectFuture[Any], deadline: Deadline) -> None:
    """Wait until a task has ended.

    Raises:
        RunTimedOut: the run's time is up.
    """
    over = Event()
    future.add_done_callback(lambda _: over.set())
    # Not by Prefect's `wait`, which takes the flow's own timeout_seconds for this one's.
    while not over.wait(deadline.within(WAKES_EVERY_SECONDS)):
        if deadline.seconds_left() == 0:
            raise deadline.missed()
    future.wait()  # else its state is asked for at the server, where it comes later
