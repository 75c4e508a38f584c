"""What happens when a run is cancelled in Prefect: its job is stopped, wherever it runs."""

from typing import Any

from tasks.at_work import stop_jobs
from tasks.spec import BatchInferenceSpec


def stop_its_jobs(flow: Any, flow_run: Any, state: Any) -> None:
    """Prefect's `on_cancellation` hook; called in a process of its own, after the run's has ended.

    All that it needs is in the flow run's parameters.
    """
    stop_jobs(BatchInferenceSpec.model_validate(flow_run.parameters["spec"]))
