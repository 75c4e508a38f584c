"""Prefect's own server, which a flow starts where nobody has named one."""

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_SERVER_EPHEMERAL_ENABLED,
    get_current_settings,
)


def start_own_server() -> None:
    """Start it, where the flow would; but deaf to Ctrl-C.

    A terminal tells all that runs in it. Were the server the first to end, the flow would try for
    minutes to tell it how the run ends. As it does where `timeout` or systemd ends both: then it
    is told that nobody is there.

    Raises:
        RuntimeError: it does not start.
    """
    if not PREFECT_API_URL.value() and PREFECT_SERVER_EPHEMERAL_ENABLED.value():
        # What a process is deaf to, it has from the thread that starts it.
        ThreadPoolExecutor(1).submit(start_deaf).result()
        # Nobody listens to them here, and a flow takes up to a second to end their thread.
        get_current_settings().flows.heartbeat_frequency = None


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
