"""Prefect's server, where it is away by the time a flow has ended: what was done is done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import httpx
from prefect import Flow, get_run_logger
from prefect.client.orchestration import get_client
from prefect.context import SettingsContext, SyncClientContext, get_settings_context
from prefect.runtime import flow_run
from prefect.settings import get_current_settings

from flows.console import console, escape
from flows.ending import SERVER_GIVEN_UP
from flows.named_server import cause_of, server_shown, trouble_with_server
from tasks.errors import BatchInferenceError, Unreachable
from tasks.stage_artifacts import catch_up
from tasks.timeouts import until_reachable

AT_COMMAND = ContextVar("at_command", default=False)
"""Whether a command waits for the flow, and this process ends with it."""
COMMAND_SECONDS = 60.0
LAST_WORD_SECONDS = 5.0
"""For each thing that a server is told of which a command waits for no longer."""
OTHERS_SECONDS = 600.0
"""As long as a deployment's run waits for a storage that is away."""

Report = dict[str, Any]
KEPT_REPORTS: dict[str, tuple[Report, str]] = {}
"""What flows of this process have come to last, by the flow's name, and the flow run's id."""


def kept_report(name: str, report: Report) -> Report:
    """A flow's report, kept for a command: Prefect hands on none that its server is not told of.

    Args:
        name: the flow's.
        report: what it returns.
    """
    KEPT_REPORTS[name] = report, str(flow_run.id)
    return report


def has_come_to_its_end(run: object) -> bool:
    """Whether a flow run's report is kept: all that it was to do is done.

    Args:
        run: its id.
    """
    return any(str(run) == kept for _, kept in KEPT_REPORTS.values())


def await_server() -> None:
    """Wait for a server that is away, before it is told how a run has ended.

    Prefect tells it for a minute that the run has completed; and where that was in vain, for
    another one that it has failed, which a server that is back by then would believe of a run
    whose rows are published.
    """
    at_command, log = AT_COMMAND.get(), get_run_logger()
    seconds = COMMAND_SECONDS if at_command else OTHERS_SECONDS
    try:
        until_reachable(ask_server, seconds, log.warning)
    except Unreachable as error:
        log.warning("%s: no longer waiting for it", error)
        if at_command:
            ask_no_more_than_once()
            SERVER_GIVEN_UP.set()
        return
    catch_up()


def ask_no_more_than_once() -> None:
    """Have Prefect's clients ask once, for seconds.

    Each picture of the run, and each word on its end, would be tried for a minute; by a server that
    takes what it is told and never answers, for six.
    """
    settings, context = get_current_settings(), SyncClientContext.get()
    settings.client.max_retries, settings.api.request_timeout = 0, LAST_WORD_SECONDS
    if context is not None:  # the flow's own client, made when it began
        context.client._client.timeout = httpx.Timeout(LAST_WORD_SECONDS)


def ask_server() -> None:
    """Ask once whether the server is there.

    Raises:
        Unreachable: it is not.
    """
    try:
        with without_retries(), get_client(sync_client=True) as client:
            client.hello()
    except httpx.HTTPError as error:
        # One that lets us in no more is there, and no waiting has it do so.
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500:
            return
        kind = type(error).__name__
        raise Unreachable(f"Prefect's server at {server_shown()} is away ({kind})") from error


@contextmanager
def without_retries() -> Iterator[None]:
    """A block in which Prefect's client asks once.

    `temporary_settings` would read each setting anew from wherever it may be, in a third of the
    time that a small run takes.
    """
    now = get_settings_context()
    client = now.settings.client.model_copy(update={"max_retries": 0})
    settings = now.settings.model_copy(update={"client": client})
    with SettingsContext(profile=now.profile, settings=settings):
        yield


@contextmanager
def own_error_first() -> Iterator[None]:
    """A block that calls a flow: what ended the flow, also where the server could not be told.

    Raises:
        BatchInferenceError: what the flow raised; or what is wrong with the server.
    """
    try:
        yield
    except BaseException as error:
        own = own_error(error)
        if own is not None and own is not error and cause_of(error) is not None:
            told = f"Prefect was not told how the run ended: {reason_of(error)}"
            console.print(escape(told), style="yellow", soft_wrap=True, highlight=False)
            raise own from None
        if trouble := trouble_with_server(error):
            raise trouble from error
        raise


def own_error(error: BaseException | None) -> BatchInferenceError | None:
    """What ended a flow, where Prefect failed to tell its server of that."""
    while error is not None and not isinstance(error, BatchInferenceError):
        error = error.__context__
    return error


def call(flow: Flow[Any, Report], *given: Any, **options: Any) -> Report:
    """Call a flow for a command; what it has come to counts, whether or not Prefect can be told.

    The server may be gone by then, or have been told to forget the flow run.
    """
    KEPT_REPORTS.clear()
    # Flows of ours tell of themselves; for Prefect's thread that does, each waits up to a second.
    get_current_settings().flows.heartbeat_frequency = None
    done: Callable[..., Report] = flow
    at_command = AT_COMMAND.set(True)
    try:
        return done(*given, **options)
    except Exception as error:
        if flow.name not in KEPT_REPORTS:
            raise
        report, run = KEPT_REPORTS[flow.name]
        told = (
            f"done, but Prefect was not told: {reason_of(error)}\nNothing needs to be repeated. "
            "Prefect may show the flow run as running or failed: once its server answers, "
            f"`prefect flow-run delete {run}` removes it there"
        )
        console.print(escape(told), style="yellow", soft_wrap=True, highlight=False)
        return report
    finally:
        AT_COMMAND.reset(at_command)


def reason_of(error: BaseException) -> str:
    """Why Prefect could not be told how a flow has ended."""
    cause = cause_of(error)
    if isinstance(cause, httpx.HTTPStatusError):
        return f"its server at {server_shown()} answers {cause.response.status_code}"
    if cause is not None:
        return f"its server at {server_shown()} does not answer ({type(cause).__name__})"
    return f"{type(error).__name__}: {error}"
