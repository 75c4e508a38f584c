"""How a driver's process ends: at once, with all that it has started."""

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

import psutil


def end_with_children(code: int) -> NoReturn:
    """End this process and those below it: a Ray of its own.

    Ray would ask each of them in turn, and a run of seconds would wait two more for its output. By
    now they have nothing to lose: what rows came out is recorded, and the result says how it ended.
    Where there are none, as beside a Ray that others use, the process ends as any other.

    Args:
        code: the process's exit code.
    """
    # Whoever has seen the result asks it to end, which Ray would have raise an exception in here.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    children = set[psutil.Process]()
    while others := {*psutil.Process().children(recursive=True)} - children:
        children |= others
        for each in others:
            with suppress(psutil.Error):
                each.suspend()  # else it could start others meanwhile
    for each in children:
        with suppress(psutil.Error):
            each.kill()
    if not children:
        sys.exit(code)
    with suppress(Exception):  # the result is written: nothing is to keep this process
        remove_spilled()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # Ray, which asks for its processes when Python ends, is not to be heard


def remove_spilled() -> None:
    """Remove what Ray has put on the disk for want of memory, as it would if it ended itself."""
    worker = sys.modules.get("ray._private.worker")
    node = getattr(worker, "_global_node", None)
    if node is not None:
        node.destroy_external_storage()
