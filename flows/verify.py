"""Predicts published rows again: whether they come out the same, and whether runs may go on."""

import math
import time
from dataclasses import replace
from datetime import datetime
from typing import Any

from prefect import flow, task
from prefect.runtime import flow_run

from flows.at_work import accounted_for
from flows.attempts import run_attempts
from flows.batch_inference import OURS, own_flow_runs
from flows.callers_time import deadline_of
from flows.cancellation import heeding_cancellation, staying_stopped
from flows.cancellation_hooks import say_stopped, unfinished_runs_in
from flows.heartbeats import heartbeats
from flows.meant_time import time_to_start
from flows.planning import patient
from flows.preview import ROWS, stop_preview
from flows.server_away import await_server, kept_report
from tasks.artifacts import artifact_key, not_vital, show_page
from tasks.errors import InvalidSpec
from tasks.previewing import clear_away
from tasks.scheduled import at_time, is_scheduled
from tasks.spec import BatchInferenceSpec
from tasks.timeouts import at_output
from tasks.verifying.accepting import ENOUGH, Configs, refuse_too_few
from tasks.verifying.comparing import TOLERANCE
from tasks.verifying.outcome import Outcome, outcome_of
from tasks.verifying.sample import draw_sample, trial_to_verify

draw = task(name="plan", persist_result=False, retries=0)(draw_sample)


def stop_verifications(flow: Any, flow_run: Any, state: Any) -> None:
    """Prefect's hook of a flow that calls this one: stop what it was at, and leave nothing behind.

    Raises:
        BatchInferenceError: as `stop_preview`.
    """
    for run in unfinished_runs_in(flow_run.id, of=verify.name):
        stop_preview(verify, run, state)


@flow(name="verify", on_cancellation=[stop_preview, say_stopped], **OURS)
def verify(
    spec: BatchInferenceSpec,
    rows: int = ROWS,
    accept: bool = False,
    tolerance: float = TOLERANCE,
    scheduled_time: datetime | None = None,
    on_cluster: bool = False,
) -> dict[str, Any]:
    """Check whether published rows come out the same today; publish nothing.

    Rows from eight places in all published inputs go through the real pipeline again, also rows
    that were set aside or filtered. Use it after a change of code, after the upgrade of a library,
    or on other machines. A Markdown artifact shows what differs.

    Args:
        spec: What to run.
        rows: How many rows to compare.
        accept: Let later runs go on under this config, if another config has published and all
            these rows come out the same.
        tolerance: Largest difference between floats that passes, as a share of the value. For
            values below 1: as a share of 1, or of the column's largest value if that is below 1
            too.
        scheduled_time: The time that {scheduled:...} in paths stands for. Empty: the time at which
            the run was to start.
        on_cluster: Run on the spec's cluster, with its devices and precision. Otherwise the rows
            run in the flow's own process, on CPUs.

    Returns:
        The figures as JSON.

    Raises:
        PredictionsDiffer: rows come out differently; says which, and in what.
        BatchInferenceError: nothing can be compared. The class says whether trying again helps.
    """
    refuse_call(rows, tolerance, accept=accept)
    with heartbeats():
        is_timed = is_scheduled(spec)
        spec = at_time(spec, scheduled_time or time_to_start())
        trial = trial_to_verify(spec, rows, str(flow_run.id), on_cluster=on_cluster)
        outcome = predicted_again(spec, trial, rows, tolerance, accept=accept, is_timed=is_timed)
        if accept:
            outcome = accepted(outcome)
        await_server()
        with not_vital("what was compared"):
            show_page(artifact_key(spec.name, "verify"), outcome.page())
        outcome.refuse_differences()
        return kept_report(verify.name, {**outcome.as_json(), "flow_run_id": flow_run.id})


def refuse_call(rows: int, tolerance: float, *, accept: bool) -> None:
    """Raise InvalidSpec if the tolerance is no valid number, or the rows are too few to accept."""
    if not 0 <= tolerance < math.inf:
        raise InvalidSpec.at("tolerance", tolerance, "must be a number, at least 0")
    if accept and rows < ENOUGH:
        raise InvalidSpec.at("rows", rows, f"must be at least {ENOUGH} to accept a config")


def predicted_again(
    spec: BatchInferenceSpec,
    trial: BatchInferenceSpec,
    rows: int,
    tolerance: float,
    *,
    accept: bool,
    is_timed: bool,
) -> Outcome:
    """Predict some published rows beside the output, compare them, and leave nothing there.

    Args:
        spec: the spec of the runs.
        trial: the spec of this comparison.
        rows: how many.
        tolerance: as `compare` takes it.
        accept: whether later runs are to go on under this config.
        is_timed: whether the spec's paths name a time.

    Raises:
        BatchInferenceError: nothing can be compared, or the comparison could not accept the config.
    """
    started, ours = time.time(), own_flow_runs()
    sample = patient(draw)(spec, trial, rows, ours, is_timed=is_timed)
    configs = Configs(spec, sample.planned.plan.pins["fingerprints"], sample.seen)
    is_there = trial.cluster == spec.cluster
    try:
        if accept:
            configs.refuse_other_form(is_where_runs_go=is_there)
            refuse_too_few(sample)
        with (
            staying_stopped(),
            heeding_cancellation(trial, ours),
            accounted_for(sample.planned, started, is_kept=False),
        ):
            run_attempts(sample.planned, deadline_of(trial))
            return outcome_of(sample, configs, tolerance, is_where_runs_go=is_there)
    finally:
        clear_away(trial)


def accepted(outcome: Outcome) -> Outcome:
    """What was found, and word of it where by that runs may go on."""
    if not outcome.is_same or outcome.configs.other is None:
        return outcome
    refuse_too_few(outcome.sample, outcome.unread)
    with at_output(outcome.sample.spec):
        found = outcome.compared
        how = {"rows": found.rows, "tolerance": found.tolerance, "largest": found.largest}
        outcome.configs.accept({**how, "flow_run": str(flow_run.id)})
    return replace(outcome, is_accepted=True)
