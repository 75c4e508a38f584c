"""Python runs this at start where the folder is on its path: makes inputs or records slow.

`SLOW_READ` and `SLOW_WRITE` say how many seconds it takes to open an input, to store a record,
which takes longer where the cell holds the job, and is noted as what leaves the model is.
"""

import builtins
import json
import os
import time
from typing import Any

READ, WRITE = float(os.environ.get("SLOW_READ", 0)), float(os.environ.get("SLOW_WRITE", 0))
LOG = os.environ.get("CHAOS_LOG", "")
open_file: Any = builtins.open
replace_file: Any = os.replace


def slow_open(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
    """Open a file; an input takes long."""
    if "r" in mode and "/in/" in str(file):
        time.sleep(READ)
    return open_file(file, mode, *arguments, **options)


def slow_replace(source: Any, target: Any, **options: Any) -> None:
    """Move a file to where it belongs; a record takes long."""
    if "/records/" in str(target):
        time.sleep(WRITE)
        # A quick model may have predicted all by then.
        while LOG and os.path.exists(os.path.join(LOG, "held")):
            time.sleep(0.05)
    replace_file(source, target, **options)
    if "/records/" in str(target) and LOG:
        note_stored(os.path.basename(target))


def note_stored(record: str) -> None:
    """Note a record in the file of this process, in one write, so that a kill cannot tear it."""
    line = json.dumps({"at": time.time(), "event": "stored", "ids": [record]})
    with open_file(os.path.join(LOG, f"{os.getpid()}.log"), "ab", buffering=0) as opened:
        opened.write(f"{line}\n".encode())


if READ:
    builtins.open = slow_open
if WRITE:
    os.replace = slow_replace  # type: ignore[assignment]
