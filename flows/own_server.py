"""Prefect's own server, which a flow starts where nobody has named one."""

import atexit
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from tempfile import TemporaryFile

import httpx
from prefect.settings import (
    PREFECT_API_DATABASE_CONNECTION_URL,
    PREFECT_API_URL,
    PREFECT_SERVER_DATABASE_CONNECTION_URL,
    PREFECT_SERVER_EPHEMERAL_ENABLED,
    PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS,
    get_current_settings,
)

from flows.proxies import HOST, pass_proxies_by
from flows.server_database import with_plugin
from tasks.errors import InvalidSpec, Unreachable
from tasks.quick_imports import import_ahead

ROOM_FOR_RECORDS = 1 << 20
"""Bytes; of the first run they take that many."""
END_SECONDS = 5.0
"""For the server to end by itself."""
UNLESS_TOLD_OTHERWISE = {
    # A spec may name ten thousand inputs; Prefect takes half a MiB, and ends with a traceback.
    "PREFECT_SERVER_API_MAX_PARAMETER_SIZE": "0",
    # Prefect writes each change of a task's state by itself: a quarter of what a run costs it.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
}
AT_API = {"PREFECT_SERVER_API_BASE_PATH": "/api"}
"""Where its API is, whatever somebody has told a server of theirs that stands behind a proxy."""


def start_own_server(imports: Iterable[str] = ()) -> None:
    """Start it, where the flow would; but deaf to Ctrl-C, and without importing it here.

    A terminal tells all that runs in it. Were the server the first to end, the flow would try for
    minutes to tell it how the run ends. As it does where `timeout` or systemd ends both: then it
    is told that nobody is there.

    Args:
        imports: modules that this process is going to need; it has seconds to wait.

    Raises:
        InvalidSpec: it would have nowhere to keep its records, or there is to be none.
        Unreachable: it does not start.
    """
    settings = get_current_settings()
    if PREFECT_API_URL.value():
        return
    if not PREFECT_SERVER_EPHEMERAL_ENABLED.value():
        raise InvalidSpec(
            "no Prefect server is set, and PREFECT_SERVER_EPHEMERAL_ENABLED=false keeps a run "
            "from starting its own: set PREFECT_API_URL to a server, or unset that variable"
        )
    check_home()
    pass_proxies_by()
    address = started(settings.to_environment_variables(exclude_unset=True))
    import_ahead(imports)
    await_answer(address)
    settings.api.url = f"{address}/api"
    if settings.server.api.auth_string is not None:
        settings.api.auth_string = settings.server.api.auth_string  # it asks for no other


def check_home() -> None:
    """See that Prefect's folder is there, where it keeps its records.

    Where they cannot be written, its server ends, with a page of words on where in its code.

    Raises:
        InvalidSpec: it cannot be made, or nothing can be written there.
    """
    home = get_current_settings().home
    if str(home) not in PREFECT_API_DATABASE_CONNECTION_URL.value():
        return
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=home) as trial:
            trial.write(bytes(ROOM_FOR_RECORDS))
    except OSError as error:
        raise InvalidSpec(
            f"Prefect cannot keep its records in {home}: {error.strerror}; set PREFECT_HOME to a "
            "writable folder, or PREFECT_API_URL to a running server"
        ) from error


def started(settings: dict[str, str]) -> str:
    """The address of a server that was started, and ends with this process.

    Args:
        settings: Prefect's, as environment variables.
    """
    process, address = launch(settings)
    atexit.register(end, process)
    threading.Thread(target=give_up_after, args=(process.wait,), daemon=True).start()
    return address


def launch(settings: dict[str, str]) -> "tuple[subprocess.Popen[bytes], str]":
    """Start a server.

    Args:
        settings: Prefect's, as environment variables.

    Returns:
        The process, and the address at which it is going to answer.
    """
    url = with_plugin(PREFECT_API_DATABASE_CONNECTION_URL.value())
    database = {PREFECT_SERVER_DATABASE_CONNECTION_URL.name: url}
    with socket.create_server((HOST, 0)) as listening:
        descriptor = listening.fileno()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "flows.prefect_server", str(descriptor)],
            stdin=subprocess.PIPE,
            pass_fds=[descriptor],
            env=UNLESS_TOLD_OTHERWISE | os.environ | settings | database | AT_API,
        )
        return process, f"http://{HOST}:{listening.getsockname()[1]}"


def await_answer(address: str) -> None:
    """Wait until a server answers.

    Raises:
        Unreachable: it has ended, or it takes longer than Prefect's setting allows.
    """
    patience = PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS.value()
    try:
        # What is asked before it is up waits at the socket; no proxy is to be asked.
        with httpx.Client(timeout=patience, trust_env=False) as client:
            client.get(f"{address}/api/health").raise_for_status()
    except httpx.HTTPError as error:
        said = "it ended" if isinstance(error, httpx.NetworkError) else str(error)
        raise Unreachable(
            f"Prefect's own server does not start: {said}. Its output is above; to use a running "
            "server, set PREFECT_API_URL"
        ) from error


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a server, which does so where nobody holds its standard input; if need be by force.

    As where somebody presses Ctrl-C once more, and waits no longer.
    """
    assert process.stdin
    process.stdin.close()
    try:
        process.wait(END_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()


def give_up_after(ended: Callable[[], object]) -> None:
    """Wait for the server's end; from then on ask it nothing twice."""
    ended()
    get_current_settings().client.max_retries = 0
