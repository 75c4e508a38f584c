"""Runs a few rows through the real pipeline: shows them, and what all rows would take."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from prefect import flow
from prefect.runtime import flow_run

from flows.at_work import accounted_for
from flows.attempts import run_attempts
from flows.batch_inference import OURS, own_flow_runs
from flows.callers_time import deadline_of
from flows.cancellation import heeding_cancellation, staying_stopped
from flows.cancellation_hooks import say_stopped
from flows.heartbeats import heartbeats
from flows.meant_time import time_meant_by, time_to_start
from flows.planning import plan_run
from flows.server_away import await_server, kept_report
from tasks.errors import BatchInferenceError
from tasks.plan import PlannedRun
from tasks.previewing import clear_away, held_back, refuse_unlike, trial_of
from tasks.report import report_preview
from tasks.run_options import RunOptions
from tasks.running_jobs import stop_jobs
from tasks.scheduled import at_time, timed_inputs
from tasks.spec import BatchInferenceSpec

ROWS = 64


def stop_preview(flow: Any, flow_run: Any, state: Any) -> None:
    """Prefect's `on_cancellation` hook: stop the job, and leave nothing behind.

    All flows that run a few rows beside the output use it.

    Raises:
        BatchInferenceError: a cluster does not answer. The preview's files then stay: one of them
            tells its job to end itself. `clean` removes them later.
    """
    given = flow_run.parameters
    spec = at_time(BatchInferenceSpec.model_validate(given["spec"]), time_meant_by(flow_run))
    rows, on_cluster = given.get("rows", ROWS), given.get("on_cluster", False)
    trial = trial_of(spec, rows, str(flow_run.id), on_cluster=on_cluster)
    stop_jobs(trial)
    clear_away(trial)


@contextmanager
def nothing_kept() -> Iterator[None]:
    """A block whose errors do not say `run it again to go on`: the next preview begins anew."""
    try:
        yield
    except BatchInferenceError as error:
        error.attempts = None
        raise


@flow(name="preview", on_cancellation=[stop_preview, say_stopped], **OURS)
def preview(
    spec: BatchInferenceSpec,
    rows: int = ROWS,
    scheduled_time: datetime | None = None,
    on_cluster: bool = False,
) -> dict[str, Any]:
    """Show what a run would do with its first rows; publish nothing.

    The rows go through the real pipeline, in this process or on the spec's cluster. A Markdown
    artifact shows inputs beside predictions, the rows a second of each stage, and the time and
    money that all rows would take.

    Args:
        spec: What to run.
        rows: How many rows to run. More rows give a better estimate.
        scheduled_time: The time that {scheduled:...} in paths stands for. Empty: the time at which
            the run was to start.
        on_cluster: Run on the spec's cluster. That may take long to start, and measures what a run
            would. Otherwise the rows run in the flow's own process, on CPUs; if the spec needs
            something that this process lacks, such as a GPU, the preview fails and names the field.

    Returns:
        The figures as JSON, and the rows as text. `would_be_held_back` says why a run of rows like
        these would publish nothing.

    Raises:
        BatchInferenceError: the pipeline does not work. The class says whether trying again helps.
    """
    with heartbeats():
        started = time.time()
        others = timed_inputs(spec)
        spec = at_time(spec, scheduled_time or time_to_start())
        trial = trial_of(spec, rows, str(flow_run.id), on_cluster=on_cluster)
        if not on_cluster:
            refuse_unlike(spec)
        ours = own_flow_runs()
        planned = plan_run(trial, RunOptions(limit=rows, timed_inputs=others, flow_runs=ours))
        try:
            report = run_trial(planned, spec, started)
        finally:
            clear_away(trial)
        return kept_report(preview.name, report)


def run_trial(planned: PlannedRun, spec: BatchInferenceSpec, started: float) -> dict[str, Any]:
    """Run a preview's rows; the figures, and why a run of rows like these would be held back.

    Args:
        planned: the preview's run.
        spec: what a whole run would be.
        started: when the preview began, in seconds since the epoch.
    """
    with (
        staying_stopped(),
        heeding_cancellation(planned.spec, planned.options.flow_runs),
        accounted_for(planned, started, is_kept=False) as at_work,
        nothing_kept(),
    ):
        deadline = deadline_of(planned.spec)
        planned, *_ = run_attempts(planned, deadline, go_on_with=at_work.go_on_with)
        await_server()
        report = report_preview(planned, spec, started)
        return {**report, "would_be_held_back": held_back(planned, spec)}
