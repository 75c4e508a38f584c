"""What the ledger is written in: a table of lines, one for each input and file of an entry.

So ten million inputs are ten million rows of Parquet, and not of JSON.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tasks.protocol.ids import IdRuns
from tasks.protocol.layout import OutputFolder, RunFolder
from tasks.protocol.records import StagedFile

LINE_SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("line", pa.string()),  # entry | input | redriven | file | quarantine | removed
        ("path", pa.string()),  # input, redriven: canonical path; file: where it is published
        ("identity", pa.string()),  # input, redriven: content identity
        ("run_id", pa.string()),
        ("shard", pa.int64()),  # input, redriven: the shard's number in its run
        ("staged", pa.string()),  # file: where it was staged, below the runs' folder
        ("rows", pa.int64()),
        ("size", pa.int64()),
        ("ids", pa.string()),  # file: its rows in order, as IdRuns.as_json
        ("details", pa.string()),  # entry, file: JSON
    ]
)

INPUT_LINES = pa.array(["input", "redriven"])


@dataclass(frozen=True)
class LedgerFile:
    """A published file: where it was staged, where it lies, which rows it holds."""

    path: str
    """Below the output, or below the state folder for quarantine."""
    staged: str
    """Below the runs' folder."""
    run_id: str
    """The run whose plan the ids belong to."""
    size: int
    ids: IdRuns
    line: str = "file"
    version: int = 0
    crc: int | None = None
    """CRC-32 of its content; None where an earlier release has published it."""

    @classmethod
    def staged_in(
        cls, run: RunFolder, file: StagedFile, path: str, line: str = "file", run_id: str = ""
    ) -> "LedgerFile":
        """A file in a run's staging folder, to be published at `path`."""
        staged = f"{run.run_id}/staging/{file.name}"
        run_id = run_id or run.run_id
        return cls(path, staged, run_id, file.size, file.ids, line, crc=file.crc)

    @property
    def rows(self) -> int:
        """Rows in the file."""
        return len(self.ids)

    def source(self, output: OutputFolder) -> str:
        """Where it lies before it is published."""
        return f"{output.runs}/{self.staged}"

    def target(self, output: OutputFolder) -> str:
        """Where it lies once published."""
        return f"{output.path if self.line == 'file' else output.state}/{self.path}"


def file_line(file: LedgerFile) -> dict[str, Any]:
    """A file as a line."""
    return {
        "line": file.line,
        "path": file.path,
        "run_id": file.run_id,
        "staged": file.staged,
        "rows": file.rows,
        "size": file.size,
        "ids": file.ids.as_json(),
        "details": None if file.crc is None else json.dumps({"crc": file.crc}),
    }


def input_lines(line: str, inputs: pa.Table, run_id: str, version: int) -> pa.Table:
    """Inputs as lines."""
    known: dict[str, Any] = {
        "version": version,
        "line": line,
        "run_id": run_id,
        **{name: inputs[name] for name in ("path", "identity", "shard")},
    }
    columns = []
    for each in LINE_SCHEMA:
        value = known.get(each.name)
        is_column = isinstance(value, pa.ChunkedArray)
        columns.append(value if is_column else pa.repeat(pa.scalar(value, each.type), len(inputs)))
    return pa.table(columns, schema=LINE_SCHEMA)


def file_of(row: dict[str, Any]) -> LedgerFile:
    """A line as a file."""
    ids, crc = IdRuns.of_json(row["ids"]), json.loads(row["details"] or "{}").get("crc")
    where = row["path"], row["staged"], row["run_id"]
    return LedgerFile(*where, row["size"], ids, row["line"], row["version"], crc)


class LedgerFiles(Mapping[str, LedgerFile]):
    """Files by path; of years there are many, and a file's ids are read when it is asked for."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self.rows = {row["path"]: row for row in rows}
        self.read: dict[str, LedgerFile] = {}

    def __getitem__(self, path: str) -> LedgerFile:
        if path not in self.read:
            self.read[path] = file_of(self.rows[path])
        return self.read[path]

    def __contains__(self, path: object) -> bool:
        return path in self.rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, is_wanted: Callable[[dict[str, Any]], bool]) -> list[LedgerFile]:
        """Files whose lines are wanted."""
        return [self[path] for path, row in self.rows.items() if is_wanted(row)]

    def of_run(self, run_id: str) -> list[LedgerFile]:
        """Those of a run."""
        return self.where(lambda row: row["run_id"] == run_id)
