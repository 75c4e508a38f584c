"""Signs of life of a flow run, by which a server's automations know that its process is there.

Prefect sends one every three minutes, or as often as a setting of each process says. A run that is
well would be taken for dead where that is not what the automations go by.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from threading import Event, Thread

from prefect.context import FlowRunContext
from prefect.events import emit_event

from flows.lost_worker import outlive_worker

HEARTBEAT = "prefect.flow-run.heartbeat"
"""Prefect's own name of them."""
EVERY_SECONDS = 30.0


@contextmanager
def heartbeats() -> Iterator[None]:
    """The body of a flow: the server hears of the run while it lasts."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None or context.flow is None:
        yield
        return
    outlive_worker()
    run = {
        "prefect.resource.id": f"prefect.flow-run.{context.flow_run.id}",
        "prefect.resource.name": context.flow_run.name,
    }
    its_flow = {
        "prefect.resource.id": f"prefect.flow.{context.flow_run.flow_id}",
        "prefect.resource.role": "flow",
        "prefect.resource.name": context.flow.name,
    }
    over = Event()

    def tell() -> None:
        while not over.is_set():
            with suppress(Exception):  # the server may be away: the next one counts
                emit_event(HEARTBEAT, run, related=[its_flow])
            over.wait(EVERY_SECONDS)

    # Prefect knows by the context which server it is.
    Thread(target=copy_context().run, args=(tell,), daemon=True).start()
    try:
        yield
    finally:
        over.set()
