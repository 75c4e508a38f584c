"""A run that somebody cancels is stopped where no worker would end it, and stays so."""

import atexit
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import cache
from itertools import takewhile
from threading import Event, Lock, Thread, current_thread, main_thread
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, StateDetails
from prefect.context import FlowRunContext
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL
from prefect.states import Cancelling

from flows.cancellation_hooks import say_over, state_of
from flows.lost_worker import STARTED_FOR, WORKER_IS_LOST, do_without_worker
from flows.own_place import give_back, lease_on_own_place
from flows.server_away import without_retries
from tasks.artifacts import not_vital
from tasks.errors import RunStopped
from tasks.running_jobs import stop_jobs
from tasks.spec import BatchInferenceSpec

LOOK_EVERY_SECONDS = 10.0
WORKER_SECONDS = 60.0
"""For a worker to end what was cancelled: it looks every ten, and uses force after thirty more."""
TIMED_OUT = "TimedOut"
"""Prefect's name of a flow run's state whose flow has a `timeout_seconds` that is over."""
CANCELLED_SINCE: dict[str, float] = {}
"""When this process has first seen of a flow run, which its worker is to end, that it is."""
BECOMING_EARNEST = Lock()
RETRIED, UNSTARTED = BEGUN_AGAIN = ("retried after a crash", "it had not started")
"""What a server's automations say as they schedule a crashed run again, whoever cancelled it."""
AWAITS_PLACE = "AwaitingConcurrencySlot"
"""Prefect's name of the state in which a run waits for a place below its deployment's limit."""


@contextmanager
def staying_stopped() -> Iterator[None]:
    """A block of a flow: who stops the run there has stopped it, however often it is to be retried.

    Raises:
        RunStopped: as the block does.
    """
    try:
        yield
    except RunStopped:
        with not_vital("that the run was stopped"):
            retry_no_more()
        raise


def refuse_cancelled_meanwhile() -> None:
    """See that nobody has cancelled the flow run while it waited for its retry, or for its process.

    Prefect lets it begin all the same: it has nobody whom to tell, where no worker has started it,
    or where it was said to be `Cancelled` at once, as by an automation.

    Raises:
        RunStopped: somebody has.
    """
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is None or (run.run_count < 2 and run.deployment_id is None):
        return  # it has waited for nothing
    try:
        with get_client(sync_client=True) as client:
            states = client.read_flow_run_states(run.id)
    except Exception:  # the server may be away: the next look counts
        return
    latest_first = sorted(states, key=lambda state: state.timestamp, reverse=True)
    since = takewhile(lambda state: not is_on_purpose(state), latest_first)
    if any(state.is_cancelled() or state.is_cancelling() for state in since):
        cancel_in_earnest(str(run.id))  # else it would be said to have failed
        raise RunStopped(
            "the flow run was cancelled while it waited to start; run again to continue where it "
            "stopped"
        )


def is_on_purpose(state: State) -> bool:
    """Whether somebody, and no machine, has scheduled a run with this state."""
    by_machine = state.message in BEGUN_AGAIN or state.name == AWAITS_PLACE
    return state.is_scheduled() and not by_machine


def retry_no_more() -> None:
    """Take back retries that somebody has asked the flow for."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None or not context.flow_run.empirical_policy.retries:
        return
    none = context.flow_run.empirical_policy.model_copy(update={"retries": 0})
    with get_client(sync_client=True) as client:
        client.update_flow_run(context.flow_run.id, empirical_policy=none)


@contextmanager
def heeding_cancellation(spec: BatchInferenceSpec, flow_runs: tuple[str, ...]) -> Iterator[None]:
    """A block in which jobs are stopped where somebody cancels the flow run, and no worker would.

    Prefect has nobody end what a command or a script has started, nor what a flow run has called in
    its own process, nor one that is said to be `Cancelled` without more ado, as by an automation:
    it would go on, and publish. A command that a worker's flow run has called outlives that. So,
    until the worker ends its process by force, does what it has called in another thread, as by
    tasks of its own: the signal that ends it is the main thread's alone. So is what ends a flow
    whose time is up, and what has awaited such a thread just leaves it.

    Args:
        spec: one with their output.
        flow_runs: ids of the flow run and of the one that has called it, where there is one.
    """
    if not flow_runs:
        yield
        return
    over, stopping, is_signalled = Event(), Lock(), in_main_thread()

    def watch() -> None:
        while not over.wait(LOOK_EVERY_SECONDS):
            with suppress(Exception):  # server or storage may be away: the next look counts
                # Again and again: its next job may not be there yet.
                if are_to_end(flow_runs, is_signalled):
                    with stopping:
                        if not over.is_set():
                            stop_jobs(spec, flow_runs[0])

    # Prefect knows by the context which server it is.
    Thread(target=copy_context().run, args=(watch,), daemon=True).start()
    try:
        yield
    finally:
        with stopping:  # after the block nothing is written: a preview then deletes its output
            over.set()


def refuse_cancelled(flow_runs: tuple[str, ...]) -> None:
    """Begin nothing more where the flow run is to end, and no worker would end it.

    Args:
        flow_runs: as `heeding_cancellation` takes them.

    Raises:
        RunStopped: it is.
    """
    is_cancelled = False
    with suppress(Exception), without_retries():  # the server may be away: the next look counts
        is_cancelled = are_to_end(flow_runs, in_main_thread())
    if is_cancelled:
        raise RunStopped(
            "the flow run was cancelled, or the time of the flow that called it is over; run "
            "again to continue"
        )


def in_main_thread() -> bool:
    """Whether this is the thread in which a worker's signal ends what runs."""
    return current_thread() is main_thread()


def are_to_end(flow_runs: tuple[str, ...], is_signalled: bool) -> bool:
    """Whether one of these flow runs, or what they are within, was cancelled or is out of time.

    Args:
        flow_runs: as `heeding_cancellation` takes them.
        is_signalled: whether a worker's signal ends what they are at.
    """
    workers = os.environ.get(STARTED_FOR)
    is_signalled = is_signalled and not WORKER_IS_LOST.is_set()
    # Who has called a worker's own run is in another process, and Prefect cancels that run with it.
    here = flow_runs[:1] if workers == flow_runs[0] else flow_runs
    for run in dict.fromkeys(filter(None, (*here, workers))):
        if is_to_end(run, run in here, run == workers and is_signalled):
            if run in here[1:] and run != workers:  # of its own the worker says so
                say_cancelled_at_exit(run)
            return True
    return False


@cache
def say_cancelled_at_exit(flow_run: str) -> None:
    """Say that a flow of somebody's own is cancelled once its process ends.

    It has no hook for that, and would be `Cancelling` for ever.
    """
    server = PREFECT_API_URL.value()

    def say() -> None:
        if server is None or PREFECT_API_URL.value() != server:
            return  # that server ends with the process, and Prefect would start another one
        with suppress(Exception), without_retries():
            say_over(UUID(flow_run), "stopped, and can be resumed")

    atexit.register(say)


def is_to_end(flow_run: str, is_here: bool, has_worker: bool) -> bool:
    """Whether a flow run was cancelled, or is out of time, and nobody else ends what it is at.

    Args:
        flow_run: its id.
        is_here: whether it is this process that it runs in.
        has_worker: whether a worker has started its process, and ends what it is at.
    """
    state = state_of(flow_run)
    if state.name == TIMED_OUT:
        return True
    if state.is_cancelled() and is_here:
        # Nobody would hear of that, and how it ended would be said over it.
        cancel_in_earnest(flow_run)
    if not (state.is_cancelling() or state.is_cancelled()):
        CANCELLED_SINCE.pop(flow_run, None)
        return False
    return not (is_here and has_worker) or is_left_by_worker(flow_run)


def is_left_by_worker(flow_run: str) -> bool:
    """Whether a worker has not ended in good time what somebody has cancelled, and does not.

    Once Prefect's server has been away for half a minute its worker hears no more of runs that were
    under way: they would go on, and publish.
    """
    since = CANCELLED_SINCE.setdefault(flow_run, time.monotonic())
    if time.monotonic() - since < WORKER_SECONDS:
        return False
    do_without_worker()
    return True


def cancel_in_earnest(flow_run: str) -> None:
    """Say that a flow run is to end, of which somebody has said that it has.

    Several threads may come to that, of flows that were called side by side: each would take a
    place below the deployment's limit.
    """
    with get_client(sync_client=True) as client, BECOMING_EARNEST:
        run = client.read_flow_run(UUID(flow_run))
        if run.state is not None and run.state.is_cancelling():
            return
        try:
            lease = lease_on_own_place(client, run)
        except PrefectHTTPStatusError:  # that it ends matters more than whose place it gives back
            lease = None
        details = StateDetails(deployment_concurrency_lease_id=lease)
        to_end: State[None] = Cancelling(state_details=details)
        try:
            client.set_flow_run_state(run.id, to_end, force=True)
        except Exception:  # the next look takes a place, too
            with suppress(Exception):
                give_back(client, run, lease)
            raise
