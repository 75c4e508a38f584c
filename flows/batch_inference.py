"""The story of a run: plan, attempt after attempt until nothing is left, publish, report."""

import time
from dataclasses import replace
from datetime import datetime
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.futures import wait
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner

from flows.cancellation import stop_its_jobs
from tasks.attempt import Attempt
from tasks.clusters.choose import release
from tasks.errors import BatchInferenceError, ErrorBudgetExceeded, InputChanged, JobLost
from tasks.patience import Deadline, backoff_seconds
from tasks.plan import PlannedRun, RunOptions, make_plan
from tasks.publish import publish_planned, with_rows
from tasks.ray_job.counts import STAGES
from tasks.report import RunReport, report_failure, report_run
from tasks.run import left_to_do, next_attempt
from tasks.scheduled import at_time, time_used
from tasks.spec import BatchInferenceSpec
from tasks.stages import follow_stage

plan_run = task(name="plan", persist_result=False)(make_plan)
publish_run = task(name="publish", persist_result=False)(publish_planned)


# The four stages, and room for plan and publish.
SIDE_BY_SIDE: Any = ThreadPoolTaskRunner(max_workers=8)


@flow(name="batch-inference", task_runner=SIDE_BY_SIDE, on_cancellation=[stop_its_jobs])
def batch_inference(
    spec: BatchInferenceSpec,
    restart: bool = False,
    replace_output: bool = False,
    limit: int | None = None,
    accept: bool = False,
    scheduled_time: datetime | None = None,
) -> dict[str, Any]:
    """Run inference over a source and publish every row exactly once.

    Args:
        spec: What to run: source, steps, model, sink, and what it may use.
        restart: Give up another spec's unfinished run on this output.
        replace_output: Predict every input again and replace what is published.
        limit: Only the first so many rows; the sink must be an output of its own.
        accept: Publish what a gate holds back, on your word, which is recorded.
        scheduled_time: What {scheduled:...} in paths stands for; else when the run was to start.

    Returns:
        The run report as JSON.

    Raises:
        BatchInferenceError: nothing was published; the class says whether running again helps.
    """
    given = RunOptions(restart, replace_output, limit, accept, scheduled_time=scheduled_time)
    return carry_out(spec, given)


def carry_out(spec: BatchInferenceSpec, options: RunOptions) -> dict[str, Any]:
    """Plan, run, publish, report; what every flow that publishes does."""
    started = time.time()
    time_meant = options.scheduled_time or flow_run.scheduled_start_time
    options = replace(options, scheduled_time=time_used(spec, time_meant))
    planned = plan_run(at_time(spec, time_meant), options)
    get_run_logger().info("inputs: %s", planned.summary)
    if planned.nothing_to_do:
        return told(report_run(planned, started))
    try:
        planned, attempts = run_attempts(planned, Deadline.of(spec))
        version = publish_run(planned)
    except Exception as error:
        report_failure(planned, started, error)
        raise
    finally:
        if problem := release(spec.cluster, planned.run.run_id):
            get_run_logger().warning(problem)
    return told(report_run(planned, started, version, attempts))


def told(report: RunReport) -> dict[str, Any]:
    """The report, with the run it is of."""
    return {**report.as_json(), "flow_run_id": flow_run.id}


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
