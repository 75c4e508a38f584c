"""Prefect's own server, which a flow starts where nobody has named one."""

import signal
from concurrent.futures import ThreadPoolExecutor

from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_EPHEMERAL_ENABLED


def start_own_server() -> None:
    """Start it, where the flow would; but deaf to Ctrl-C.

    A terminal tells all that runs in it. Were the server the first to end, the flow would try for
    minutes to tell it how the run ends.

    Raises:
        RuntimeError: it does not start.
    """
    if not PREFECT_API_URL.value() and PREFECT_SERVER_EPHEMERAL_ENABLED.value():
        # What a process is deaf to, it has from the thread that starts it.
        ThreadPoolExecutor(1).submit(start_deaf).result()


def start_deaf() -> None:
    """Start the server in a thread that hears no Ctrl-C."""
    from prefect.server.api.server import SubprocessASGIServer

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    SubprocessASGIServer().start()
