"""Something that happens to a process at the n-th call of a kind that it makes."""

from collections.abc import Callable
from typing import Any

from tasks.kinds.tables.delta_output import DeltaOutput
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.storage import FsspecStorage

CALLS: dict[str, tuple[type, str, str]] = {
    "plan": (FsspecStorage, "write", "/plans/"),
    "todo": (FsspecStorage, "write", "/attempts/"),
    "data": (FsspecStorage, "write", "/staging/"),
    "record": (FsspecStorage, "write", "/records/"),
    "listing": (FsspecStorage, "list", ""),
    "commit": (DeltaLedger, "commit", ""),
    "move": (FsspecStorage, "move", "/staging/"),
    "marker": (FsspecStorage, "write", "/_SUCCESS"),
    "applied": (FsspecStorage, "write", "/applied"),
}
"""Calls by name: whose they are, the method, and what stands in its first argument."""
OF_TABLES: dict[str, tuple[type, str, str]] = {"table": (DeltaOutput, "commit", "")}
"""The same, where the output is a table."""


def at_call(call: str, number: int, happens: Callable[[], None], *, after: bool) -> None:
    """Let something happen in this process at the n-th call of a kind, before or after it."""
    owner, name, piece = (CALLS | OF_TABLES)[call]
    whole, made = getattr(owner, name), 0

    def struck(self: Any, *given: Any) -> Any:
        nonlocal made
        made += piece in str(given[0])
        is_it = piece in str(given[0]) and made == number
        if is_it and not after:
            happens()
        found = whole(self, *given)
        if is_it and after:
            happens()
        return found

    setattr(owner, name, struck)
