"""Lets one call go wrong, to storage, ledger or table."""

from typing import Any

from tasks.errors import StaleLedger, StaleTable
from tests.tables.bench import TableBench

CRASH, LOST_REPLY = "crash before", "lost reply of"
CHANGES = {"commit", "write", "move", "delete"}
LOST = {"ledger": StaleLedger, "table": StaleTable, "storage": ConnectionError}


class Killed(BaseException):
    """The process is gone."""


class Fault:
    """One call goes wrong, by number or the first of a name; only changes' replies can be lost."""

    def __init__(self, call: int | str, how: str) -> None:
        self.call, self.how, self.calls = call, how, 0
        self.names: list[str] = []
        self.struck = False

    def strike(self, who: str, call: str, function: Any, arguments: tuple[Any, ...]) -> Any:
        """Make a call, or not."""
        if self.how == LOST_REPLY and call not in CHANGES:
            return function(*arguments)
        name = f"{who}.{call}"
        is_it = not self.struck and self.call in (self.calls, name)
        self.struck |= is_it
        self.calls += 1
        self.names.append(name)
        if is_it and self.how == CRASH:
            raise Killed
        found = function(*arguments)
        if is_it and self.how == LOST_REPLY:
            raise LOST[who]("the reply got lost")
        return found


class Faulty:
    """Stands before a storage, a ledger or a table."""

    def __init__(self, fault: Fault, who: str, whole: Any) -> None:
        self.fault, self.who, self.whole = fault, who, whole

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.whole, name)
        if not callable(found):
            return found
        return lambda *arguments: self.fault.strike(self.who, name, found, arguments)


def break_at(bench: TableBench, fault: Fault) -> TableBench:
    """The same output, seen by a process to which a fault will happen."""
    broken = TableBench(bench.sink)
    for who in ("storage", "ledger", "table"):
        setattr(broken, who, Faulty(fault, who, getattr(bench, who)))
    return broken
