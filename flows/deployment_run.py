"""Whether a flow run is a deployment's: nobody waits for it, and its folder goes with it."""

from prefect.context import FlowRunContext
from prefect.runtime import deployment


def is_deployment_run() -> bool:
    """Whether a deployment has started this flow run, or the one that calls it."""
    context = FlowRunContext.get()
    own = context.flow_run if context else None
    if own and own.parent_task_run_id is None:
        # `runtime` would ask Prefect's server each time, by a client of its own.
        return own.deployment_id is not None
    return bool(deployment.id)
