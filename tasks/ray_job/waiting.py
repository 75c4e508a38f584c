"""A driver that starts Ray, or joins one, before there is a job for it."""

import json
import os
from contextlib import suppress
from typing import TextIO

WAIT = "--wait"


def await_job(lines: TextIO) -> list[str] | None:
    """Start or join Ray, and wait for a job; None where nobody has one any more.

    Args:
        lines: a first one with which Ray it is to be, a second one with the job.

    Returns:
        The driver's arguments.
    """
    options = json.loads(lines.readline())["ray"]
    from tasks.ray_job.connection import connect

    with suppress(Exception):  # the job tries again, and says what is wrong
        connect(options)
        import tasks.ray_job.cluster  # noqa: F401  (Ray's first workers start meanwhile)
    line = lines.readline()
    if not line:
        return None
    told = json.loads(line)
    os.environ.update(told["environment"])
    return list(told["arguments"])
