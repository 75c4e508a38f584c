"""User code for the matrix: takes its time, and notes when which rows came and went."""

import json
import os
import time
from pathlib import Path
from typing import Any

Batch = dict[str, Any]
HELD_BACK = 2_400
"""Of 4,000 rows, of which a stage is struck after two thousand at most."""


def note(event: str, batch: Batch) -> None:
    """Note rows in a file of this process, in one write, so that a kill cannot tear it."""
    line = json.dumps({"at": time.time(), "event": event, "ids": batch["id"].tolist()})
    file = Path(os.environ["CHAOS_LOG"]) / f"{os.getpid()}.log"
    with file.open("ab", buffering=0) as opened:
        opened.write(f"{line}\n".encode())


def wait_while_held(batch: Batch) -> None:
    """Predict nothing as long as the cell says so: what it waits for may take its time.

    Nor, where it says so, far more than the rows at which it is to be struck, before it is.
    """
    cell = Path(os.environ["CHAOS_LOG"])
    while (cell / "held").exists() or (
        (cell / "unstruck").exists() and batch["id"].max() >= HELD_BACK
    ):
        time.sleep(0.05)


class Shift:
    """A step: adds one to `x`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, batch: Batch) -> Batch:
        time.sleep(self.seconds * len(batch["x"]))
        return {**batch, "x": batch["x"] + 1}


class Double:
    """A model: doubles `x`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, batch: Batch) -> Batch:
        note("came", batch)
        time.sleep(self.seconds * len(batch["x"]))
        wait_while_held(batch)
        note("went", batch)
        return {"y": batch["x"] * 2}
