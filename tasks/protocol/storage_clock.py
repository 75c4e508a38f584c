"""A storage's own clock, by which its files are old: those of machines may be minutes off."""

import time
import uuid
from contextlib import suppress

from tasks.protocol.storage import FsspecStorage


def now_at(storage: FsspecStorage, path: str) -> float:
    """The time, as a storage notes it of what is written now, in seconds since the epoch.

    Whoever may only read there goes by the clock of this machine.

    Args:
        storage: to be asked.
        path: beside which a file may lie for a moment.
    """
    probe = f"{path}.probe-{uuid.uuid4().hex}"
    written = None
    with suppress(OSError):
        storage.write(probe, b"")
        written = storage.modified(probe)
        storage.delete(probe)
    return time.time() if written is None else written
