"""A table in memory: its contract, and what may go wrong at a call."""

from collections.abc import Set
from typing import ClassVar

from tasks.errors import StaleTable
from tasks.protocol.table import TableChange, TableState
from tests.simulation.storage import Faults, lost_reply


def lost_commit() -> Exception:
    return StaleTable("request or reply got lost")


class SimTable:
    """Files by name, and the last entry of each ledger that is among them."""

    kind: ClassVar[str] = "simulated"

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.place = "table"
        self.version = 0
        self.files: set[str] = set()
        self.applied: dict[str, int] = {}

    def look(self, ledger_id: str) -> TableState:
        self.faults.before("look", "table", lost_reply)
        return TableState(self.applied.get(ledger_id, 0), frozenset(self.files), self.version)

    def commit(self, change: TableChange, seen: TableState) -> None:
        self.faults.before("commit", "table", lost_commit)
        if seen.version != self.version:
            raise StaleTable(f"version {self.version} is there, {seen.version} was seen")
        removed = {file.path for file in change.removed}
        assert removed <= self.files
        self.files = self.files - removed | {file.path for file in change.added}
        self.applied[change.ledger_id] = change.version
        self.version += 1
        self.faults.after("commit", "table", lost_commit)

    def way_back(self, files: Set[str]) -> str | None:
        return None  # it keeps no older versions
