"""What happens when a run is cancelled in Prefect: its job is stopped, wherever it runs."""

from datetime import datetime
from typing import Any

from tasks.at_work import stop_jobs
from tasks.errors import BatchInferenceError
from tasks.periods import portions
from tasks.scheduled import at_time, time_of_flow_run
from tasks.spec import BatchInferenceSpec


def stop_its_jobs(flow: Any, flow_run: Any, state: Any) -> None:
    """Prefect's `on_cancellation` hook; called in a process of its own, after the run's has ended.

    All that it needs is in the flow run: its parameters, and when it was to start.
    """
    spec = BatchInferenceSpec.model_validate(flow_run.parameters["spec"])
    stop_jobs(at_time(spec, time_of_flow_run(flow_run)))


def stop_backfill_jobs(flow: Any, flow_run: Any, state: Any) -> None:
    """The same for a backfill, whose jobs are those of its periods."""
    given = flow_run.parameters
    spec = BatchInferenceSpec.model_validate(given["spec"])
    start, end = (as_time(given.get(name)) for name in ("start", "end"))
    errors = []
    # The one at work is the last that was begun; trouble with another keeps it from nothing.
    for portion in reversed(portions(spec, start, end, given.get("every", "1d"))):
        try:
            stop_jobs(portion.spec)
        except BatchInferenceError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def as_time(given: Any) -> datetime | None:
    """A time among a flow run's parameters, which are JSON."""
    return datetime.fromisoformat(given) if isinstance(given, str) else given
