"""Iceberg tables of which each change must be later than the one before it."""

import time
from datetime import UTC, datetime
from typing import Any

MOST_BEHIND_SECONDS = 60.0
"""A change may be so much earlier than the one before it, for other engines to read the table."""


def step_back_of(table: Any, place: str) -> str | None:
    """Why nothing may be committed now, since it would be earlier than the commit before it.

    pyiceberg lets that pass, and other engines, as Spark, would read nothing of the table any more.

    Returns:
        What is wrong; None where this machine's clock is not behind the last change.
    """
    last = table.metadata.last_updated_ms / 1000
    behind = last - time.time()
    if behind <= MOST_BEHIND_SECONDS:
        return None
    until = datetime.fromtimestamp(last, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return (
        f"by this machine's clock, {place} was last changed {behind:.0f} s in the future, and "
        "engines cannot read a table whose changes go back in time: set the clocks of all "
        f"machines, for example with NTP; if this one is right, run again after {until}"
    )
