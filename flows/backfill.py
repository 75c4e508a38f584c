"""Brings outputs up to date with a spec, one scheduled time after the other."""

from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from prefect import flow, get_run_logger, task
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run
from prefect.states import Crashed

from flows.batch_inference import OURS, WRITTEN, batch_inference, own_flow_runs
from flows.cancellation import refuse_cancelled, refuse_cancelled_meanwhile, staying_stopped
from flows.cancellation_hooks import say_cancelled, stop_backfill_jobs
from flows.heartbeats import heartbeats
from flows.meant_time import time_to_start
from flows.orphaned_runs import end_its_runs, end_runs_of
from flows.own_folder import check_whole_paths
from flows.planning import patient
from flows.server_away import kept_report
from flows.verify import stop_verifications, verify
from tasks.artifacts import artifact_key, show_page
from tasks.errors import (
    BatchInferenceError,
    InputNotFound,
    InvalidSpec,
    OutputHeld,
    PredictionsDiffer,
    RunStopped,
    SchemaMismatch,
)
from tasks.left_previews import stop_left_previews
from tasks.output_status import (
    allowing_gaps,
    gaps,
    has_inputs,
    has_lost_inputs,
    has_restarted,
    left_published,
    look_at,
)
from tasks.periods import EVERY_DAY, Portion, label, portions
from tasks.planning.preflight import check_spec
from tasks.reporting.backfilled import Outcome, outcome_table
from tasks.spec import BatchInferenceSpec
from tasks.timeouts import at_output

check = task(name="check", persist_result=False, retries=0)(check_spec)
LEFT = "its process is gone; the backfill was started again and continues with this period"


@dataclass(frozen=True)
class Backfill:
    """What all runs of a backfill share."""

    spec: BatchInferenceSpec
    """As it was written, with its placeholders."""
    fingerprints: dict[str, str]
    """Those of weights and code when the backfill began."""
    restart: bool
    accept: bool
    verify: bool


@flow(
    name="backfill",
    on_failure=[end_its_runs],
    on_crashed=[end_its_runs],
    on_cancellation=[stop_backfill_jobs, stop_verifications, end_its_runs, say_cancelled],
    **OURS,
)
def backfill(
    spec: BatchInferenceSpec,
    start: datetime | None = None,
    end: datetime | None = None,
    every: str = EVERY_DAY,
    restart: bool = False,
    accept: bool = False,
    verify: bool = False,
) -> dict[str, Any]:
    """Predict again what another model or config predicted, add new inputs, skip what is done.

    Args:
        spec: What to run. {scheduled:...} in its paths stands for each time of the range in turn.
        start: The first scheduled time of the range. Leave it empty if no path names a time.
        end: The last scheduled time of the range, included.
        every: The step from one scheduled time to the next, such as 1d, 6h or 1w.
        restart: Give up unfinished runs on these outputs.
        accept: Publish rows although gates hold them back; of a run that was held back already,
            those that were judged. Your decision is recorded.
        verify: If another config made an output, first predict some of its rows again, on the
            spec's cluster. If they come out the same, keep the output, as `verify` does with
            `accept`.

    Returns:
        What was done for each period, as JSON.

    Raises:
        BatchInferenceError: says at which period the backfill stopped; earlier periods are done.
    """
    with heartbeats():
        check_whole_paths(spec)
        end_what_was_left()
        with staying_stopped():
            refuse_cancelled_meanwhile()
        # `every` is empty if its box in the form was cleared.
        runs = portions(spec, start, end, every or EVERY_DAY, time_to_start())
        fingerprints = patient(check)(allowing_gaps(runs[0].spec))
        done = bring_all_up(Backfill(spec, fingerprints, restart, accept, verify), runs)
        report = {"name": spec.name, "periods": [each.as_json() for each in done]}
        return kept_report(backfill.name, {"state": "done", **report, "flow_run_id": flow_run.id})


def end_what_was_left() -> None:
    """Mark the runs as crashed that an earlier process of this flow run began and left.

    Perhaps nobody else has done so. Prefect starts a flow run again only if its process is gone or
    seems to be. If that process still lives, the state that it reports at its end counts.
    """
    if flow_run.run_count < 2:
        return
    with get_client(sync_client=True) as client:
        end_runs_of(client, UUID(str(flow_run.id)), Crashed(message=LEFT))


def bring_all_up(backfill: Backfill, runs: list[Portion]) -> list[Outcome]:
    """Bring one output after the other up to date, and leave a table of what was done.

    Raises:
        BatchInferenceError: says at which period it stopped, or that no period has any input.
    """
    done: list[Outcome] = []
    try:
        with staying_stopped():
            for portion in runs:
                refuse_cancelled(own_flow_runs())
                done.append(bring_up(backfill, portion))
                get_run_logger().info("%s: %s", portion.name, done[-1].line)
        refuse_nothing(backfill.spec, done)
    finally:
        show(backfill.spec, done)
    return done


def bring_up(backfill: Backfill, portion: Portion) -> Outcome:
    """Bring one output up to date.

    Raises:
        BatchInferenceError: that failed; says at which period, and how to go on.
    """
    try:
        outcome = patient(look)(backfill, portion)
        if backfill.verify and outcome.is_outdated and not outcome.what and is_same(portion):
            outcome = replace(patient(look)(backfill, portion), is_accepted=True)
        return outcome if outcome.what else run(backfill, portion, outcome)
    except BatchInferenceError as error:
        told = f"{error}\nThe backfill stopped at {portion.name}"
        way_on = "run it again to continue there; what is done is skipped"
        if not (error.can_retry or isinstance(error, RunStopped | OutputHeld)):
            way_on = f"fix that, then {way_on}"
        raise error.retold(f"{told}: {way_on}") from error


def is_same(portion: Portion) -> bool:
    """Whether rows of an output come out the same; then the present config counts as its own."""
    time = portion.scheduled_time
    if flow_run.run_count > 1:
        stop_left_verification(portion)
    try:
        verify(portion.written, accept=True, scheduled_time=time, on_cluster=True)
    except (PredictionsDiffer, SchemaMismatch, InvalidSpec) as error:
        get_run_logger().info("%s is predicted again: %s", portion.name, error)
        return False
    return True


def stop_left_verification(portion: Portion) -> None:
    """Stop what an earlier process of this flow run compared if it was killed meanwhile."""
    try:
        with at_output(portion.spec):
            errors = stop_left_previews(portion.spec).errors
    except BatchInferenceError as error:
        errors = [error]
    for each in errors:
        get_run_logger().warning("what was compared before is left to stop itself: %s", each)


@task(task_run_name="look at {portion.name}", persist_result=False, retries=0)
def look(backfill: Backfill, portion: Portion) -> Outcome:
    """What is done with an output without a run; empty if it needs a run."""
    empty = gaps(portion, backfill.spec)
    outcome = Outcome(portion.name, portion.spec.sink.path, without_data=list(map(label, empty)))
    no_data = len(empty) == len(portion.times) > 0 or not has_inputs(portion.spec)
    if no_data and not has_lost_inputs(portion.spec):
        version, is_outdated = left_published(portion, backfill.fingerprints)
        return replace(outcome, what="no data", version=version or None, is_outdated=is_outdated)
    found = look_at(portion, backfill.fingerprints)
    for note in found.notes if found.is_done else ():
        get_run_logger().warning("%s: %s", portion.name, note)
    return replace(
        outcome,
        what="up to date" if found.is_done else "",
        version=found.version,
        is_outdated=found.is_outdated,
        inputs_skipped=found.inputs if found.is_done else 0,
        inputs_dropped=len(found.dropped),
    )


def run(backfill: Backfill, portion: Portion, outcome: Outcome) -> Outcome:
    """Run what an output needs: every input again, or only new ones."""
    if outcome.inputs_dropped:
        said = "%s: the rows of %d inputs that are no longer at the source will be removed too"
        get_run_logger().warning(said, portion.name, outcome.inputs_dropped)
    flow = copy(batch_inference)  # with_options would make the schema of its parameters anew
    flow.flow_run_name = portion.flow_run_name
    was = WRITTEN.set(backfill.spec)
    try:
        report = flow(
            portion.written,
            # A backfill that was started again after its worker died goes on with what it began.
            restart=backfill.restart and not has_restarted(portion, str(flow_run.id)),
            # With that mode a run replaces anyway; the option would make it differ from a night's.
            replace_output=outcome.is_outdated and backfill.spec.sink.mode != "replace",
            accept=backfill.accept,
            scheduled_time=portion.scheduled_time,
        )
    finally:
        WRITTEN.reset(was)
    names = ("run_id", "version", "rows", "resumed_rows", "inputs_skipped")
    told = {name: report[name] for name in names}
    return replace(outcome, what="replaced" if outcome.is_outdated else "published", **told)


def show(spec: BatchInferenceSpec, done: list[Outcome]) -> None:
    """Leave a table of what was done; an error here must not hide what ended the backfill."""
    try:
        if done:
            show_page(artifact_key(spec.name, "backfill"), outcome_table(done))
    except Exception:
        get_run_logger().exception("the backfill's table could not be shown")


def refuse_nothing(spec: BatchInferenceSpec, done: list[Outcome]) -> None:
    """Raise InputNotFound if no period had any input, unless the spec allows that."""
    if spec.source.on_empty == "fail" and all(each.what == "no data" for each in done):
        problem = (
            "has no input at any of these times; correct the path, or set source.on_empty: succeed"
        )
        raise InputNotFound.at("source.path", spec.source.path, problem)
