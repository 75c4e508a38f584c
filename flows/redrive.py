"""Runs rows again that were set aside: rows that work now move into the output."""

from datetime import datetime
from typing import Any

from prefect import flow

from flows.batch_inference import OURS, carry_out
from flows.cancellation_hooks import say_cancelled, stop_its_jobs
from flows.heartbeats import heartbeats
from flows.server_away import kept_report
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tasks.spec_parts import ErrorBudget


@flow(name="redrive", on_cancellation=[stop_its_jobs, say_cancelled], **OURS)
def redrive(
    spec: BatchInferenceSpec, restart: bool = False, scheduled_time: datetime | None = None
) -> dict[str, Any]:
    """Run the rows again that published runs set aside, after a fix or with another model.

    Rows that work now move from the quarantine into the output, in one commit. The others stay set
    aside, and keep their earlier reasons. Inputs that have changed since are left to the next run,
    which predicts them anew.

    Args:
        spec: The output's spec. Its steps and model may differ from those that set the rows aside.
        restart: Give up the unfinished run of another spec on this output.
        scheduled_time: The time that {scheduled:...} in paths stands for. Empty: the time at which
            the run was to start.

    Returns:
        The run report as JSON: rows read, written, and still rejected.

    Raises:
        BatchInferenceError: the class says whether running again helps. Either nothing is changed,
            or the next run finishes the change.
    """
    # Rows that fail again must not keep the others in the quarantine.
    spec = spec.model_copy(update={"errors": ErrorBudget(max_rejected_fraction=1)})
    options = RunOptions(restart, redrive=True, scheduled_time=scheduled_time)
    with heartbeats():
        return kept_report(redrive.name, carry_out(spec, options))
