"""The story of a run: plan, attempt after attempt until nothing is left, publish, report."""

import time
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from typing import Any

from prefect import flow, get_run_logger
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner

from flows.at_work import accounted_for
from flows.attempts import run_and_publish
from flows.callers_time import deadline_of
from flows.cancellation import heeding_cancellation, refuse_cancelled_meanwhile, staying_stopped
from flows.cancellation_hooks import say_cancelled, stop_its_jobs
from flows.deployment_run import is_deployment_run
from flows.heartbeats import heartbeats
from flows.meant_time import time_to_start
from flows.own_folder import check_whole_paths
from flows.planning import plan_run
from flows.server_away import await_server, kept_report
from flows.stage_tasks import refuse_other_processes
from tasks.errors import BatchInferenceError, GateFailed, UnfinishedRun
from tasks.late_report import report_late
from tasks.plan import PlannedRun
from tasks.planning.unfinished_errors import LEFT_TO_A_BACKFILL
from tasks.report import report_run, show_run
from tasks.reporting.run_report import RunReport
from tasks.run_options import RunOptions
from tasks.scheduled import at_time, shares_output, time_used, timed_inputs
from tasks.spec import BatchInferenceSpec
from tasks.without_ray import advice_without_ray

OURS: dict[str, Any] = {
    # The four stages, and room for plan and publish.
    "task_runner": ThreadPoolTaskRunner(max_workers=8),
    # What is published says what is left to do: a stored result of an earlier try must not.
    "persist_result": False,
    # Whatever default a team sets for all flows: the flow itself retries what may pass, and a retry
    # of Prefect's would begin a run anew that somebody has stopped or a gate has held back.
    "retries": 0,
}
"""Options of all our flows."""
WRITTEN = ContextVar[BatchInferenceSpec | None]("written", default=None)
"""A backfill's spec with its placeholders. A run of several times together has them filled in."""


@flow(name="batch-inference", on_cancellation=[stop_its_jobs, say_cancelled], **OURS)
def batch_inference(
    spec: BatchInferenceSpec,
    restart: bool = False,
    replace_output: bool = False,
    limit: int | None = None,
    accept: bool = False,
    profile: bool = False,
    scheduled_time: datetime | None = None,
) -> dict[str, Any]:
    """Run inference over a source and publish every row exactly once.

    Args:
        spec: What to run: source, steps, model, sink, and the resources it may use.
        restart: Give up the unfinished run of another spec on this output.
        replace_output: Predict every input again and replace everything that is published.
        limit: Run only this many rows, the first ones, as a trial. Set another sink.path for the
            trial, because a later run of all rows cannot continue from it.
        accept: Publish the rows although a gate holds them back; of a run that was held back
            already, those that were judged. Your decision is recorded.
        profile: Write profiles of the first batches of each stage to the run's folder.
        scheduled_time: The time that {scheduled:...} in paths stands for. Empty: the time at which
            the run was to start.

    Returns:
        The run report as JSON.

    Raises:
        BatchInferenceError: the class says whether running again helps. Either nothing is
            published, or the next run finishes the publication.
    """
    given = RunOptions(
        restart, replace_output, limit, accept, profile=profile, scheduled_time=scheduled_time
    )
    with heartbeats():
        return kept_report(batch_inference.name, carry_out(spec, given))


def carry_out(spec: BatchInferenceSpec, options: RunOptions) -> dict[str, Any]:
    """Plan, run, publish and report: what every flow that publishes does."""
    started = time.time()
    with staying_stopped():
        refuse_cancelled_meanwhile()
    refuse_other_processes()
    check_whole_paths(spec)
    time_meant = options.scheduled_time or time_to_start()
    used = time_used(spec, time_meant)
    options = replace(
        options,
        scheduled_time=used,
        shares_output=shares_output(spec, time_meant),
        timed_inputs=timed_inputs(WRITTEN.get() or spec),
        # An earlier night's run that blocks a backfill is finished as that night would finish it.
        is_backfill=WRITTEN.get() is not None and not options.finished_after,
        flow_runs=own_flow_runs(),
    )
    planned = plan_after_unfinished(spec, at_time(spec, time_meant), options)
    get_run_logger().info("inputs: %s", planned.summary)
    for note in filter(None, [*planned.notes, report_late(planned)]):
        get_run_logger().warning(note)
    if planned.nothing_to_do:
        await_server()
        return told(report_run(planned, started))
    if advice := advice_without_ray(planned):
        get_run_logger().info(advice)
    with (
        staying_stopped(),
        heeding_cancellation(planned.spec, options.flow_runs),
        accounted_for(planned, started) as at_work,
    ):
        planned, attempts, version = run_and_publish(at_work, deadline_of(spec))
    report = report_run(planned, started, version, attempts)
    await_server()
    show_run(planned, report)
    return told(report)


def plan_after_unfinished(
    written: BatchInferenceSpec, spec: BatchInferenceSpec, options: RunOptions
) -> PlannedRun:
    """Plan a run; a deployment's run first finishes the unfinished run of an earlier night.

    If that earlier run could not finish in its time, for example because of an outage, it would
    block all later nights, and nobody is there at night to finish it.

    Args:
        written: the spec with its placeholders.
        spec: the same with its placeholders filled in.
        options: how the run was called.

    Raises:
        BatchInferenceError: as `plan_run`, or the error of the earlier run.
    """
    try:
        return plan_run(spec, options)
    except UnfinishedRun as error:
        asks_for_more = options.replace_output or options.redrive
        if not (is_deployment_run() and error.scheduled_time) or asks_for_more:
            raise
        time = error.scheduled_time
        if at_time(written, datetime.fromisoformat(time)).source == spec.source:
            raise  # the spec's paths name no time now, and lead to no other inputs
    get_run_logger().warning("the unfinished run of %s is finished first", time)
    finish_earlier(written, time, options)
    return plan_run(spec, options)


def finish_earlier(written: BatchInferenceSpec, time: str, options: RunOptions) -> None:
    """Finish the unfinished run of an earlier scheduled time.

    That run may itself be blocked by another unfinished one. If two block each other, the one that
    was to be finished first comes second. `accept` is not passed on: whoever set it has looked at
    the rows of one run only.

    Args:
        written: the spec with its placeholders.
        time: the scheduled time of the unfinished run.
        options: those of the run that it blocks.

    Raises:
        BatchInferenceError: the error of that run, and how to go on without it.
    """
    its = replace(
        options,
        scheduled_time=datetime.fromisoformat(time),
        finished_after=(*options.finished_after, time),
        accept=False,
    )
    try:
        carry_out(written, its)
    except BatchInferenceError as error:
        way_on = f"with --restart it {LEFT_TO_A_BACKFILL}"
        if isinstance(error, GateFailed):
            way_on = f"--accept publishes it only with --scheduled-time {time}; {way_on}"
        raise error.retold(
            f"{error}\nThis is the unfinished run of the scheduled time {time}, which other times "
            f"wait for; {way_on}"
        ) from error


def own_flow_runs() -> tuple[str, ...]:
    """The id of this flow run, and that of the flow run that started it, if there is one."""
    return tuple(filter(None, (flow_run.id, flow_run.parent_flow_run_id)))


def told(report: RunReport) -> dict[str, Any]:
    """The report, with the id of its flow run."""
    return {**report.as_json(), "flow_run_id": flow_run.id}
