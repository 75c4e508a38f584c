"""How many files a run has published, and how they become fewer where they are many and small."""

import math
from dataclasses import dataclass, replace
from typing import Any

from tasks.counted import counted
from tasks.kinds.sinks.partitions import most_folders
from tasks.protocol.records import Record
from tasks.reporting.evidence import Evidence

MANY_FILES = 1_000
SMALL_BYTES = 1 << 20
"""Files below this take readers longer to find and open than to read."""
BYTES_PER_WRITE = 64 << 20
"""Of stored rows; in the memory of whoever writes them it is some times as much."""
SECONDS_PER_WRITE = 600.0
"""Of the run: what a crash may cost."""
TIMES_LARGER = 2.0
"""With less nobody would see the difference."""


@dataclass(frozen=True)
class FileSizes:
    """The files of rows that a run has published."""

    files: int
    rows: int
    bytes: int
    are_small: bool = False
    """Whether they are many and small."""
    rows_per_file: int | None = None
    """What to name for `sink.rows_per_file` where that makes small files larger; else None."""


def file_sizes(evidence: Evidence, steady: float | None) -> FileSizes:
    """How large the files are that a run has published.

    Args:
        evidence: of the run.
        steady: seconds of this call from the model's first row to its last.
    """
    published = evidence.published()
    size = sum(file.size for file in published)
    found = FileSizes(
        files=len(published),
        rows=sum(file.rows for file in published),
        bytes=size,
        are_small=len(published) > MANY_FILES and size < SMALL_BYTES * len(published),
    )
    if not found.are_small or not steady:
        return found
    rows = larger_writes(found, evidence.own_records, steady)
    folders = {file.partition for record in evidence.own_records for file in record.files}
    is_taken = len(folders) <= most_folders(rows)
    return replace(found, rows_per_file=rows if is_taken else None)


def larger_writes(found: FileSizes, records: list[Record], steady: float) -> int | None:
    """Rows that a write is to wait for, in one digit; None where they would hardly be more.

    Args:
        found: what is published.
        records: of this call.
        steady: seconds that it took to make their rows.
    """
    writes = [rows for record in records if (rows := sum(file.rows for file in record.files))]
    if not writes:
        return None
    in_time = SECONDS_PER_WRITE * sum(writes) / steady
    in_memory = BYTES_PER_WRITE * found.rows / found.bytes
    most = max(1, int(min(in_time, in_memory, sum(writes))))
    digit: int = 10 ** int(math.log10(most))
    rows = most // digit * digit
    return rows if rows >= TIMES_LARGER * sum(writes) / len(writes) else None


def told_files(found: dict[str, Any]) -> str:
    """The same in words, of `FileSizes` as plain values."""
    each = found["rows"] / max(1, found["files"])
    words = f"{counted(found['files'], 'file')}, {counted(found['bytes'], 'byte')}"
    if not found["are_small"]:
        return words
    words = f"{words}: many small ones, of {counted(round(each), 'row')} on average"
    rows = found["rows_per_file"]
    return f"{words}; sink.rows_per_file={rows} makes them larger" if rows else words
