"""Python runs this at start where the folder is on its path: makes inputs or records slow.

`SLOW_READ` and `SLOW_WRITE` say how many seconds it takes to open an input, to store a record,
which takes longer where the cell holds the job.
"""

import builtins
import os
import time
from typing import Any

READ, WRITE = float(os.environ.get("SLOW_READ", 0)), float(os.environ.get("SLOW_WRITE", 0))
HELD = os.environ.get("CHAOS_LOG") and os.path.join(os.environ["CHAOS_LOG"], "held")
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
        while HELD and os.path.exists(HELD):  # a quick model may have predicted all by then
            time.sleep(0.05)
    replace_file(source, target, **options)


if READ:
    builtins.open = slow_open
if WRITE:
    os.replace = slow_replace  # type: ignore[assignment]
