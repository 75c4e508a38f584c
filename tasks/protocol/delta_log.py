"""The log of a Delta table on a local disk.

Deltalake leaves it to the system when it is written out. Where the machine loses power before
that, the newest entry has its name and no content, which reads as a commit of nothing at all.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from tasks.protocol.local_files import flush
from tasks.protocol.read_back import json_object

ENTRY = re.compile(r"[0-9]{20}\.json")


def settle(table: str, versions: Iterable[int]) -> None:
    """See that the log has these versions, whatever happens to the machine.

    Their data files are not looked at.
    """
    log = log_of(table)
    for version in versions:
        for file in log.glob(f"{version:020}.*"):  # the entry, and a checkpoint of it
            flush(str(file))
    for path in (log / "_last_checkpoint", log, log.parent, log.parent.parent):
        flush(str(path))


def settle_files(table: str, versions: Iterable[int]) -> None:
    """The same of the data files that these versions add."""
    for version in versions:
        for path in added(log_of(table) / f"{version:020}.json"):
            flush(os.path.join(table, path))


def added(entry: Path) -> Iterator[str]:
    """Data files that an entry adds, below the table; none where it was cleaned away."""
    lines = entry.read_text().splitlines() if entry.exists() else []
    for line in lines:
        action = json.loads(line)
        if "add" in action:
            yield unquote(action["add"]["path"])


def lost_entry(table: str) -> Path | None:
    """The log's newest entry, if it has no content."""
    log = log_of(table)
    names = os.listdir(log) if log.is_dir() else []
    newest = max((name for name in names if ENTRY.fullmatch(name)), default=None)
    if newest is None or (log / newest).read_bytes().strip(b"\0\n "):
        return None
    return log / newest


def damaged_entry(table: str) -> Path | None:
    """The log's first entry that is no JSON, line by line."""
    for entry in sorted(file for file in log_of(table).iterdir() if ENTRY.fullmatch(file.name)):
        try:
            for line in entry.read_bytes().splitlines():
                json_object(line)
        except ValueError:
            return entry
    return None


def log_of(table: str) -> Path:
    """Its folder."""
    return Path(table, "_delta_log")
