"""Prefect's own server for one run, in a process of its own: `python -P -m flows.prefect_server`.

To import it takes two seconds, which the run has a better use for.
"""

import gc
import os
import signal
import socket
import sys
import threading

from tasks.quick_imports import quick_imports


def serve(descriptor: int) -> None:
    """Answer on a socket that listens already, until whoever has started this process is gone.

    Args:
        descriptor: of the socket.

    Raises:
        SystemExit: the server does not start.
    """
    # A terminal tells all that runs in it to end; the run ends this once it needs it no more.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    threading.Thread(target=end_with_starter, daemon=True).start()

    with quick_imports():
        import uvicorn
        from prefect.server.api.server import create_app

        app = create_app(ephemeral=True, final=True)
    gc.freeze()  # all of this stays: to look through it for garbage takes a third of a second
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
    with socket.socket(fileno=descriptor) as listening:
        server.run(sockets=[listening])
    if not server.started:
        sys.exit(1)


def end_with_starter() -> None:
    """End this process once nobody holds the other end of its standard input any more."""
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
