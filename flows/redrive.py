"""Rows that were set aside, run again: what works now moves into the output, the rest stays."""

from datetime import datetime
from typing import Any

from prefect import flow

from flows.batch_inference import OURS, carry_out
from flows.cancellation_hooks import say_cancelled, stop_its_jobs
from flows.heartbeats import heartbeats
from flows.server_away import kept_report
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec, ErrorBudget


@flow(name="redrive", on_cancellation=[stop_its_jobs, say_cancelled], **OURS)
def redrive(
    spec: BatchInferenceSpec, restart: bool = False, scheduled_time: datetime | None = None
) -> dict[str, Any]:
    """Run the rows again that published runs have set aside, after a fix or with another model.

    Rows that work now move from the quarantine into the output, in one commit; the others stay
    set aside, with what was said of them before. Inputs that have changed since are left to the
    next run, which predicts them anew.

    Args:
        spec: The output's spec; steps and model may be others than those that set rows aside.
        restart: Give up another spec's unfinished run on this output.
        scheduled_time: What {scheduled:...} in paths stands for; else when the run was to start.

    Returns:
        The run report as JSON: rows read, written, and still rejected.

    Raises:
        BatchInferenceError: the class says whether running again helps. Nothing is changed, or
            the next run finishes it.
    """
    # That rows stay where they are is no reason to leave the others there too.
    spec = spec.model_copy(update={"errors": ErrorBudget(max_rejected_fraction=1)})
    options = RunOptions(restart, redrive=True, scheduled_time=scheduled_time)
    with heartbeats():
        return kept_report(redrive.name, carry_out(spec, options))
