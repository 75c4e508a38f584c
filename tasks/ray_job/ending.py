"""How a driver's process ends: at once, with all that it has started."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import psutil

SESSION = "--session-dir="
"""As Ray tells its head where a session's logs and sockets are."""
TRIES, TRY_SECONDS = 20, 0.05


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
    sessions = session_folders(children)
    for each in children:
        with suppress(psutil.Error):
            each.kill()
    if not children:
        sys.exit(code)
    with suppress(Exception):  # the result is written: nothing is to keep this process
        remove_spilled()
        if code == 0:  # else somebody may look for the reason in there
            remove_sessions(sessions)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # Ray, which asks for its processes when Python ends, is not to be heard


def remove_spilled() -> None:
    """Remove what Ray has put on the disk for want of memory, as it would if it ended itself."""
    worker = sys.modules.get("ray._private.worker")
    node = getattr(worker, "_global_node", None)
    if node is not None:
        node.destroy_external_storage()


def session_folders(processes: Iterable[psutil.Process]) -> set[Path]:
    """Where those of these processes that are a Ray's head have their session."""
    found = set[Path]()
    for each in processes:
        with suppress(psutil.Error):
            words = [word for word in each.cmdline() if word.startswith(SESSION)]
            found |= {Path(word.removeprefix(SESSION)) for word in words}
    return found


def remove_sessions(folders: Iterable[Path]) -> None:
    """Remove what is left of a Ray that is no more: a megabyte or two, which it keeps for ever."""
    for folder in folders:
        for _ in range(TRIES):  # who was just killed may be at its last write
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
            time.sleep(TRY_SECONDS)
        latest = folder.parent / "session_latest"
        # Ray would not replace a link that leads nowhere.
        if latest.is_symlink() and latest.readlink() == folder:
            latest.unlink(missing_ok=True)
