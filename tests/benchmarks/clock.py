"""When a model had its first batch and gave its last, over all processes that have one."""

import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


class Clock:
    """Notes each batch in a file of its process's own."""

    def __init__(self, folder: Path | str) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.file = Path(folder) / f"{os.getpid()}-{uuid.uuid4().hex}.txt"

    def timed(self, model: Callable[[Given], Made], batch: Given, rows: int) -> Made:
        """Call a model, and note when and with how many rows."""
        begun = time.time()
        made = model(batch)
        with self.file.open("a") as file:
            file.write(f"{begun} {time.time()} {rows}\n")
        return made


def read_clocks(folder: Path | str) -> dict[str, float]:
    """Rows, first and last moment of all models, in seconds since the epoch."""
    texts = [file.read_text() for file in Path(folder).iterdir()]
    lines = [line.split() for text in texts for line in text.splitlines()]
    return {
        "rows": sum(int(rows) for _, _, rows in lines),
        "first": min(float(begun) for begun, _, _ in lines),
        "last": max(float(ended) for _, ended, _ in lines),
    }
