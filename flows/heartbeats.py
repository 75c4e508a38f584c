"""Signs of life of a flow run, by which a server's automations know that its process is there.

Prefect sends one every three minutes, or as often as a setting of each process says. A run that is
well would be taken for dead where that is not what the automations go by. So would one on a machine
whose clock is behind: they count from the time that a sign names.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from threading import Event, Lock, Thread
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.events import emit_event
from prefect.exceptions import Pause

from flows.lost_worker import outlive_worker
from flows.server_away import without_retries
from tasks.errors import RunStopped

HEARTBEAT = "prefect.flow-run.heartbeat"
"""Prefect's own name of them."""
LEFT = "prefect-ray-data.flow-run.left"
"""The last word of a process whose run was suspended: until it leaves, which takes seconds, it may
have given signs of life, after which silence would be taken for its death."""
EVERY_SECONDS = 30.0
WAITING: dict[UUID, Event] = {}
"""Of each flow run that this process is to try again: what ends its signs of life meanwhile."""


class SignsOfLife:
    """What the server hears of a flow run, from a thread beside it."""

    def __init__(self, run: FlowRun, flow_name: str) -> None:
        self.run = {
            "prefect.resource.id": f"prefect.flow-run.{run.id}",
            "prefect.resource.name": run.name,
        }
        self.flow = {
            "prefect.resource.id": f"prefect.flow.{run.flow_id}",
            "prefect.resource.role": "flow",
            "prefect.resource.name": flow_name,
        }
        self.over, self.speaking, self.ahead = Event(), Lock(), timedelta()

    def begin(self) -> None:
        """Give the first sign of life, and others as long as the run lasts."""
        # Prefect knows by the context which server it is.
        Thread(target=copy_context().run, args=(self.tell,), daemon=True).start()

    def say(self, what: str) -> None:
        """Say something once, if the server hears it."""
        with suppress(Exception):
            emit_event(what, self.run, datetime.now(UTC) + self.ahead, related=[self.flow])

    def tell(self) -> None:
        """Give signs of life until the run is over."""
        while not self.over.is_set():
            with suppress(Exception):  # the server may be away: the next one counts
                self.ahead = time_at_server() - datetime.now(UTC)
            with self.speaking:
                if self.over.is_set():  # to ask takes a moment, and a run that is over gives none
                    return
                self.say(HEARTBEAT)
            self.over.wait(EVERY_SECONDS)

    def leave(self) -> None:
        """Say the last word of a run that is to be resumed in another process."""
        with self.speaking:
            self.over.set()
            self.say(LEFT)


@contextmanager
def heartbeats() -> Iterator[None]:
    """The body of a flow: the server hears of the run while it lasts."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None or context.flow is None:
        yield
        return
    outlive_worker()
    run = context.flow_run
    if (waiting := WAITING.pop(run.id, None)) is not None:
        waiting.set()
    signs = SignsOfLife(run, context.flow.name)
    signs.begin()
    try:
        yield
    except Pause:
        signs.leave()
        raise
    except Exception as error:
        if is_tried_again(run, error):
            WAITING[run.id] = signs.over
        raise
    finally:
        if WAITING.get(run.id) is not signs.over:
            signs.over.set()


def is_tried_again(run: FlowRun, error: Exception) -> bool:
    """Whether this process tries a flow run again, perhaps after hours, as somebody has asked.

    Only a deployment's process ends with its run, and with it these signs of life.
    """
    retries = run.empirical_policy.retries or 0
    is_asked = run.deployment_id is not None and run.run_count <= retries
    return is_asked and not isinstance(error, RunStopped)


def time_at_server() -> datetime:
    """The time by the server's clock, to some seconds; by ours, where a proxy keeps that back."""
    with get_client(sync_client=True) as client, without_retries():
        said = client.hello().headers.get("date")
    return parsedate_to_datetime(said) if said else datetime.now(UTC)
