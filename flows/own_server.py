"""Prefect's own server, which a flow starts where nobody has named one."""

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryFile

from prefect.settings import (
    PREFECT_API_DATABASE_CONNECTION_URL,
    PREFECT_API_URL,
    PREFECT_SERVER_EPHEMERAL_ENABLED,
    get_current_settings,
)

from tasks.errors import InvalidSpec, Unreachable


def start_own_server() -> None:
    """Start it, where the flow would; but deaf to Ctrl-C.

    A terminal tells all that runs in it. Were the server the first to end, the flow would try for
    minutes to tell it how the run ends. As it does where `timeout` or systemd ends both: then it
    is told that nobody is there.

    Raises:
        InvalidSpec: it would have nowhere to keep its records.
        Unreachable: it does not start.
    """
    if not PREFECT_API_URL.value() and PREFECT_SERVER_EPHEMERAL_ENABLED.value():
        check_home()
        # What a process is deaf to, it has from the thread that starts it.
        try:
            ThreadPoolExecutor(1).submit(start_deaf).result()
        except RuntimeError as error:
            raise Unreachable(
                f"Prefect's own server does not start: {error} What it has said stands above; "
                "PREFECT_API_URL names a server that runs"
            ) from error
        # Nobody listens to them here, and a flow takes up to a second to end their thread.
        get_current_settings().flows.heartbeat_frequency = None


def check_home() -> None:
    """See that Prefect's folder is there, where it keeps its records.

    Where they cannot be written, its server would be started again and again for two minutes.

    Raises:
        InvalidSpec: it cannot be made, or nothing can be written there.
    """
    home = get_current_settings().home
    if str(home) not in PREFECT_API_DATABASE_CONNECTION_URL.value():
        return
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=home):
            return
    except OSError as error:
        raise InvalidSpec(
            f"Prefect cannot keep its records in {home}: {error.strerror}; set PREFECT_HOME to a "
            "folder that can be written, or PREFECT_API_URL to a server that runs"
        ) from error


def start_deaf() -> None:
    """Start the server in a thread that hears no Ctrl-C."""
    from prefect.server.api.server import SubprocessASGIServer

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    server = SubprocessASGIServer()
    server.start()
    if server.server_process:
        ended = server.server_process.wait
        threading.Thread(target=give_up_after, args=(ended,), daemon=True).start()


def give_up_after(ended: Callable[[], object]) -> None:
    """Wait for the server's end; from then on ask it nothing twice."""
    ended()
    get_current_settings().client.max_retries = 0
