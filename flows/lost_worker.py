"""A flow run goes on where its worker dies, as if none had started it.

Prefect's console ends the process at the next line that nobody reads, and the run as crashed.
"""

import os
import select
from contextlib import suppress
from functools import cache
from threading import Event, Thread

STARTED_FOR = "PREFECT__FLOW_RUN_ID"
"""In the environment of a process that a worker has started: it ends one that is cancelled."""
HOOKS = "PREFECT__ENABLE_CANCELLATION_AND_CRASHED_HOOKS"
"""In the same environment: whether the process calls them itself, and not its worker."""
WORKER_IS_LOST = Event()


@cache
def outlive_worker() -> None:
    """See that this process does without its worker once that reads no more what it says."""
    if STARTED_FOR not in os.environ:
        return
    read = select.poll()
    streams: list[int] = []
    for stream in (1, 2):
        with suppress(OSError):
            os.fstat(stream)  # one that was closed at the start may be somebody else's by then
            read.register(stream, 0)  # errors alone, as of a pipe that nobody reads
            streams.append(stream)

    def watch() -> None:
        while streams:
            lost = read.poll()
            WORKER_IS_LOST.set()
            os.environ[HOOKS] = "true"
            for stream, _ in lost:
                nobody = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nobody, stream)
                os.close(nobody)
                read.unregister(stream)
                streams.remove(stream)

    Thread(target=watch, daemon=True).start()
