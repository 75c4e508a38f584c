"""A flow run goes on where its worker dies, as if none had started it.

Prefect's console ends the process at the next line that nobody reads, and the run as crashed.
"""

import os
import select
from contextlib import suppress
from functools import cache
from threading import Event, Thread

from rich.console import Console

STARTED_FOR = "PREFECT__FLOW_RUN_ID"
"""In the environment of a process that a worker has started: it ends one that is cancelled."""
HOOKS = "PREFECT__ENABLE_CANCELLATION_AND_CRASHED_HOOKS"
"""In the same environment: whether the process calls them itself, and not its worker."""
LOOK_EVERY_SECONDS = 10.0
"""At who the parent is: where nobody has ever read what this process says, no pipe tells of it."""
WORKER_IS_LOST = Event()


@cache
def outlive_worker() -> None:
    """See that this process does without its worker once that is gone."""
    if STARTED_FOR not in os.environ:
        return
    # Else a line that waited for its reader as that went would end the process.
    Console.on_broken_pipe = lambda console: None  # type: ignore[assignment, method-assign]
    Thread(target=watch, args=(os.getppid(), os.open(os.devnull, os.O_WRONLY)), daemon=True).start()


def watch(worker: int, nobody: int) -> None:
    """Wait for the worker's end, and hand to nobody what it would have read.

    Args:
        worker: its process.
        nobody: a file that takes all.
    """
    streams, read = [], select.poll()
    for stream in (1, 2):
        with suppress(OSError):
            os.fstat(stream)  # one that was closed at the start may be somebody else's by then
            read.register(stream, 0)  # errors alone, as of a pipe that nobody reads
            streams.append(stream)
    while streams or not WORKER_IS_LOST.is_set():
        lost = read.poll(LOOK_EVERY_SECONDS * 1000)
        if lost or os.getppid() != worker:
            do_without_worker()
        for stream, _ in lost:
            os.dup2(nobody, stream)
            read.unregister(stream)
            streams.remove(stream)


def do_without_worker() -> None:
    """Have this process end by itself what is cancelled, and say so: its worker would not."""
    WORKER_IS_LOST.set()
    os.environ[HOOKS] = "true"
