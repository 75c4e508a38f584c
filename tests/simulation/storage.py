"""Storage and ledger in memory; what goes wrong at a call is somebody else's decision."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from tasks.errors import StaleLedger
from tasks.protocol.ledger import Entry, Snapshot
from tasks.protocol.ledger_lines import LINE_SCHEMA
from tasks.protocol.object_stat import Stat

Lost = Callable[[], Exception]


class Faults(Protocol):
    """What happens around a call: another actor's turn, a crash, a lost reply."""

    def before(self, call: str, path: str, lost: Lost) -> None:
        """The call has not happened yet; `lost` makes the error where its request gets lost."""

    def after(self, call: str, path: str, lost: Lost) -> None:
        """The call has happened; its reply may get lost."""

    def hides(self, written_at: int) -> bool:
        """Whether a listing leaves out an object."""

    def now(self) -> int:
        """Steps so far."""


class Calm:
    """Nothing goes wrong."""

    def before(self, call: str, path: str, lost: Lost) -> None: ...

    def after(self, call: str, path: str, lost: Lost) -> None: ...

    def hides(self, written_at: int) -> bool:
        return False

    def now(self) -> int:
        return 0


def lost_reply() -> Exception:
    return ConnectionError("request or reply got lost")


def lost_commit() -> Exception:
    return StaleLedger("request or reply got lost")


class SimStorage:
    """Objects in a dict. A move is a copy and a delete, as on an object store."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.objects: dict[str, bytes] = {}
        self.written_at: dict[str, int] = {}

    def write(self, path: str, data: bytes) -> None:
        self.faults.before("write", path, lost_reply)
        self.put(path, data)
        self.faults.after("write", path, lost_reply)

    def put(self, path: str, data: bytes) -> None:
        self.objects[path] = data
        self.written_at[path] = self.faults.now()

    def read(self, path: str) -> bytes:
        self.faults.before("read", path, lost_reply)
        if path not in self.objects:
            raise FileNotFoundError(path)
        return self.objects[path]

    def list(self, folder: str) -> list[Stat]:
        self.faults.before("list", folder, lost_reply)
        found = [path for path in self.objects if path.startswith(f"{folder}/")]
        seen = [path for path in found if not self.faults.hides(self.written_at[path])]
        return [self.stat_of(path) for path in sorted(seen)]

    def stat(self, path: str) -> Stat | None:
        self.faults.before("stat", path, lost_reply)
        return self.stat_of(path) if path in self.objects else None

    def stat_of(self, path: str) -> Stat:
        data = self.objects[path]
        return Stat(path, len(data), str(hash(data)))

    def move(self, source: str, target: str) -> None:
        self.faults.before("copy", source, lost_reply)
        if source not in self.objects:
            return
        self.put(target, self.objects[source])
        self.faults.after("copy", source, lost_reply)
        self.delete(source)

    def delete(self, path: str) -> None:
        self.faults.before("delete", path, lost_reply)
        self.objects.pop(path, None)
        self.faults.after("delete", path, lost_reply)


NO_LINES = LINE_SCHEMA.empty_table()
NOTHING = Snapshot(0, NO_LINES)


@dataclass(frozen=True)
class PlainSnapshot(Snapshot):
    """A snapshot that keeps entries as they were made: most of a small world's time is Arrow's."""

    made: tuple[tuple[int, Entry], ...] = ()
    """With their versions."""

    @cached_property
    def changes(self) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for version, entry in self.made:
            for row in entry.changes(version):
                found.setdefault(row["line"], []).append(row)
        return found

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        return {line: self.table(line) for line in ("input", "redriven")}

    def of(self, line: str, names: list[str]) -> pa.Table:
        return self.tables[line].select(names)

    def table(self, line: str) -> pa.Table:
        columns = "path", "identity", "run_id", "shard", "version"
        tables = [NO_LINES.select(columns)]
        for version, entry in self.made:
            if entry.input_line == line:
                path, identity, shard = entry.inputs.columns
                same = [[value] * len(shard) for value in (entry.run_id, version)]
                arrays = [path, identity, same[0], shard, same[1]]
                tables.append(pa.table(dict(zip(columns, arrays, strict=True))))
        return pa.concat_tables(tables)


class SimLedger:
    """The ledger's contract in memory, with the lines that the Delta table has."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.snapshot = NOTHING

    def look(self) -> Snapshot:
        self.faults.before("look", "ledger", lost_reply)
        return self.snapshot

    def commit(self, entry: Entry, seen: Snapshot) -> int:
        self.faults.before("commit", "ledger", lost_commit)
        version = self.snapshot.next_version
        if not self.is_fresh(seen):
            raise StaleLedger(f"{version} comes next, not {seen.next_version}")
        self.snapshot = self.with_entry(entry, version)
        self.faults.after("commit", "ledger", lost_commit)
        return version

    def settle(self, versions: range) -> None: ...

    def maintain(self) -> None:
        """What a compaction of a Delta table does: another version, without an entry."""
        if self.snapshot.version:
            self.snapshot = replace(self.snapshot, log_version=self.snapshot.next_version)

    def with_entry(self, entry: Entry, version: int) -> Snapshot:
        lines = pa.concat_tables([self.snapshot.lines, entry.lines(version)])
        return Snapshot(version, lines)

    def is_fresh(self, seen: Snapshot) -> bool:
        return seen.next_version == self.snapshot.next_version


class PlainLedger(SimLedger):
    """The same contract, with the entries themselves."""

    def with_entry(self, entry: Entry, version: int) -> Snapshot:
        made = self.snapshot.made if isinstance(self.snapshot, PlainSnapshot) else ()
        return PlainSnapshot(version, NO_LINES, made=(*made, (version, entry)))
