"""The ledger: which rows are published, from which inputs, by which run.

An entry is the decision; moving files is only applying it. The contract has two calls: look, and
commit if nothing was committed since.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.protocol.ids import RowsByRun, by_run
from tasks.protocol.ledger_lines import (
    INPUT_LINES,
    LINE_SCHEMA,
    LedgerFile,
    LedgerFiles,
    file_line,
    file_of,
    input_lines,
)
from tasks.protocol.texts import large


@dataclass(frozen=True)
class Entry:
    """One commit."""

    run_key: str
    run_id: str
    inputs: pa.Table
    """path, identity, shard of what this run published."""
    redrives: bool = False
    """Whether it brings rows of published inputs that were set aside, and no inputs of its own."""
    files: tuple[LedgerFile, ...] = ()
    removed: tuple[str, ...] = ()
    replaces: bool = False
    """A complete new version: what was published before is no more."""
    details: dict[str, Any] = field(default_factory=dict)

    def lines(self, version: int) -> pa.Table:
        """The entry as the ledger stores it."""
        few = pa.Table.from_pylist(self.changes(version), LINE_SCHEMA)
        inputs = input_lines(self.input_line, self.inputs, self.run_id, version)
        return pa.concat_tables([few, inputs])

    @property
    def input_line(self) -> str:
        """The type of the lines that name its inputs."""
        return "redriven" if self.redrives else "input"

    def changes(self, version: int) -> list[dict[str, Any]]:
        """All lines but those of inputs."""
        details = {**self.details, "run_key": self.run_key, "replaces": self.replaces}
        own = [{"line": "entry", "details": json.dumps(details)}]
        own += [{"line": "removed", "path": path} for path in self.removed]
        own += [file_line(file) for file in self.files]
        return [{"run_id": self.run_id, **line, "version": version} for line in own]


@dataclass(frozen=True)
class Snapshot:
    """The ledger as it stood when looked at."""

    version: int
    """Of the last entry; 0 before the first."""
    lines: pa.Table
    id: str = ""
    """The ledger's own: another one, that begins anew at the same path, has another id."""
    log_version: int = 0
    """Of what it is kept in: whoever maintains that, as by a compaction, adds versions without an
    entry, in which nothing is published."""

    @property
    def next_version(self) -> int:
        """That of an entry committed on top of it."""
        return max(self.version, self.log_version) + 1

    @cached_property
    def changes(self) -> dict[str, list[dict[str, Any]]]:
        """Lines by type, ascending by version; all but those of inputs, which may be millions."""
        lines = self.lines.filter(pc.invert(pc.is_in(self.lines["line"], INPUT_LINES)))
        found: dict[str, list[dict[str, Any]]] = {}
        for row in sorted(lines.to_pylist(), key=itemgetter("version")):
            found.setdefault(row["line"], []).append(row)
        return found

    @cached_property
    def entries(self) -> dict[int, dict[str, Any]]:
        """Details of each entry by version, ascending."""
        rows = self.changes.get("entry", [])
        return {row["version"]: {**json.loads(row["details"]), **run_of(row)} for row in rows}

    @cached_property
    def run_ids(self) -> set[str]:
        """Runs that are published."""
        return {entry["run_id"] for entry in self.entries.values()}

    @cached_property
    def base(self) -> int:
        """The latest version that replaced all before it; 0 where none did."""
        return self.base_at(self.version)

    def base_at(self, version: int) -> int:
        """What was the base at an earlier version."""
        replacing = (v for v, entry in self.entries.items() if entry["replaces"] and v <= version)
        return max(replacing, default=0)

    @property
    def schema(self) -> bytes | None:
        """Of the published rows, serialised; None where no run has written one yet.

        That with most columns, of equals the last: a run that began before another one brought a
        column may be published after it.
        """
        told = dict.fromkeys(reversed(self.schemas))
        return max(map(bytes.fromhex, told), key=num_columns, default=None)

    @property
    def schemas(self) -> list[str]:
        """Those that versions since the base have told, as hexadecimal; the same may come again."""
        since = [each for version, each in self.entries.items() if version >= self.base]
        return [each["schema"] for each in since if each.get("schema")]

    @cached_property
    def inputs(self) -> pa.Table:
        """Shards whose rows are published: path, identity, run_id, shard, version."""
        lines = self.input_lines("input")
        versions = lines["version"].to_numpy()
        if not len(lines) or versions.min() == versions.max():
            return lines
        paths = large(lines["path"]).combine_chunks().dictionary_encode().indices.to_numpy()
        last = np.zeros(len(lines), dtype=np.int64)
        np.maximum.at(last, paths, versions)
        return lines.filter(pa.array(versions == last[paths]))

    def holds(self, paths: pa.ChunkedArray) -> bool:
        """Whether some of these inputs are published, in whatever version of them."""
        return bool(pc.any(pc.is_in(large(paths), large(self.inputs["path"]))).as_py())

    @cached_property
    def holders(self) -> pa.Table:
        """The same, and the shards of redrives that brought in rows of these inputs since."""
        redriven = self.input_lines("redriven")
        if not len(redriven):
            return self.inputs
        paths = redriven["path"]
        own = self.inputs.filter(pc.is_in(large(self.inputs["path"]), large(paths)))
        since = dict(zip(own["path"].to_pylist(), own["version"].to_pylist(), strict=True))
        lines = zip(paths.to_pylist(), redriven["version"].to_pylist(), strict=True)
        keep = [path in since and version > since[path] for path, version in lines]
        return pa.concat_tables([self.inputs, redriven.filter(pa.array(keep, pa.bool_()))])

    def input_lines(self, line: str) -> pa.Table:
        """Lines that name inputs, since all was replaced for the last time."""
        lines = self.of(line, ["path", "identity", "run_id", "shard", "version"])
        return lines.filter(pc.greater_equal(lines["version"], self.base)) if self.base else lines

    @cached_property
    def files(self) -> LedgerFiles:
        """Files that hold the published rows, by path."""
        return self.live("file")

    @cached_property
    def quarantine(self) -> LedgerFiles:
        """Quarantine files of published runs, by path."""
        return self.live("quarantine")

    @property
    def rows_aside(self) -> RowsByRun:
        """Rows in the quarantine, by the run that set them aside."""
        return by_run((file.run_id, file.ids) for file in self.quarantine.values())

    def of(self, line: str, names: list[str]) -> pa.Table:
        """Lines of one type, in the columns that are asked for: there may be millions."""
        return self.lines.select(names).filter(pc.equal(self.lines["line"], line))

    @cached_property
    def removed(self) -> dict[str, int]:
        """Paths of removed files, and the versions that removed them."""
        return {row["path"]: row["version"] for row in self.changes.get("removed", [])}

    def live(self, line: str) -> LedgerFiles:
        """Files added and not removed since."""
        return LedgerFiles(self.published_at(self.version, line))

    def published_at(self, version: int, line: str = "file") -> Iterator[dict[str, Any]]:
        """Lines of the files that held the published rows at this version, or at an earlier one."""
        base = self.base_at(version)
        for row in self.changes.get(line, []):
            is_removed = self.removed.get(row["path"], version + 1) <= version
            if base <= row["version"] <= version and not is_removed:
                yield row

    def paths_at(self, version: int) -> set[str]:
        """Their paths."""
        return {row["path"] for row in self.published_at(version)}

    def dead_since(self, version: int) -> list[LedgerFile]:
        """Files that versions after this one removed or replaced."""
        before = self.base_at(version)
        rows = [*self.changes.get("file", []), *self.changes.get("quarantine", [])]
        return [
            file_of(row)
            for row in rows
            if (row["version"] < self.base or row["path"] in self.removed)
            and row["version"] >= before
            and self.removed.get(row["path"], version + 1) > version
        ]

    def version_of(self, run_key: str) -> int | None:
        """The version that published a run, or None."""
        return next((v for v, e in self.entries.items() if e["run_key"] == run_key), None)


def num_columns(schema: bytes) -> int:
    """How many columns a serialised schema has."""
    return len(pa.ipc.read_schema(pa.py_buffer(schema)))


def run_of(row: dict[str, Any]) -> dict[str, Any]:
    """The run a line belongs to."""
    return {"run_id": row["run_id"]}


class Ledger(Protocol):
    """Commit if nothing was committed since I looked."""

    def look(self) -> Snapshot:
        """All that is committed; version 0 and no lines where nothing is."""

    def commit(self, entry: Entry, seen: Snapshot) -> int:
        """Commit an entry on top of what was seen; return its version.

        Raises:
            StaleLedger: something was committed since, or the reply was lost; look again.
            OSError: it does not take anything.
        """

    def settle(self, versions: range) -> None:
        """See that no power cut takes these versions back."""
