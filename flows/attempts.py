"""Attempt after attempt, each with its four stage tasks, until nothing is left to do."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prefect import get_run_logger, task
from prefect.futures import wait

from tasks.attempt import Attempt
from tasks.clusters.choose import release
from tasks.errors import BatchInferenceError, ErrorBudgetExceeded, InputChanged, JobLost
from tasks.patience import Deadline, backoff_seconds
from tasks.plan import PlannedRun, make_plan
from tasks.publish import with_rows
from tasks.ray_job.counts import STAGES
from tasks.report import report_failure
from tasks.run import left_to_do, next_attempt
from tasks.stages import follow_stage

plan_run = task(name="plan", persist_result=False)(make_plan)


@contextmanager
def accounted_for(planned: PlannedRun, started: float) -> Iterator[None]:
    """Whatever happens in the block: a failure is reported, and what was made for the run ended."""
    try:
        yield
    except Exception as error:
        report_failure(planned, started, error)
        raise
    finally:
        if problem := release(planned.spec.cluster, planned.run.run_id):
            get_run_logger().warning(problem)


def run_attempts(planned: PlannedRun, deadline: Deadline) -> tuple[PlannedRun, int]:
    """Attempt after attempt until the records cover the plan.

    Returns:
        The run, planned anew where an input changed meanwhile, and how many attempts it took.

    Raises:
        BatchInferenceError: trying again cannot help, or has been tried often enough.
    """
    tried = 0
    while gap := left_to_do(planned, tried=tried > 0):
        if tried == planned.spec.retries.max_attempts:
            raise JobLost(f"{tried} attempts left something undone; run again to go on with it")
        tried += 1
        try:
            attempt = next_attempt(planned, gap)
            attempt.tell = get_run_logger().info
            run_stages(attempt, deadline)
        except ErrorBudgetExceeded as error:
            raise with_rows(planned, error) from error
        except BatchInferenceError as error:
            if not error.can_retry:
                raise
            if tried >= planned.spec.retries.max_attempts:
                error.attempts = tried
                raise
            get_run_logger().warning("attempt %s failed, another follows: %s", tried, error)
            time.sleep(backoff_seconds(tried))
            if isinstance(error, InputChanged):
                planned = plan_run(planned.spec, planned.options)
    return planned, tried


def run_stages(attempt: Attempt, deadline: Deadline) -> None:
    """The four stage tasks, each from its stage's first row on, until all are done or one failed.

    Raises:
        BatchInferenceError: what the failing stage raised.
        RunTimedOut: the run's time is up.
    """
    try:
        first, *others = STAGES
        futures = [follow_stage.submit(first, attempt)]
        for stage in others:
            attempt.await_stage(stage, deadline)
            futures.append(follow_stage.submit(stage, attempt))
        if wait(futures, timeout=deadline.seconds_left()).not_done:
            raise deadline.missed()
        for future in futures:
            future.result(raise_on_failure=future.state.is_failed())
    finally:
        attempt.stop()
