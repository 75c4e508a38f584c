"""User code for the scenarios: logs how many rows it was handed, and takes its time."""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np


def log(rows: int) -> None:
    """Note rows in a file of this process, in one write, so that a kill cannot tear it."""
    file = Path(os.environ["CHAOS_LOG"]) / f"{os.getpid()}.log"
    with file.open("ab", buffering=0) as opened:
        opened.write(f"{rows}\n".encode())


class Double:
    """Doubles `x`."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        log(len(batch["x"]))
        time.sleep(self.seconds)
        return {"y": batch["x"] * 2}


MAX_CHILDREN = 300


def num_children(row: int) -> int:
    """How many children a row has: from none to 300."""
    return row * 7919 % (MAX_CHILDREN + 1)


def multiply(batch: dict[str, Any]) -> dict[str, Any]:
    """Each row's children, side by side."""
    counts = [num_children(int(row)) for row in batch["id"]]
    return {
        **{name: np.repeat(values, counts) for name, values in batch.items()},
        "child": np.concatenate([np.arange(count) for count in counts]),
    }


class Measure(Double):
    """Measures texts."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        log(len(batch["text"]))
        time.sleep(self.seconds)
        return {"y": np.array([len(text) for text in batch["text"]])}


class Hungry(Double):
    """Needs so many MiB for each row of a batch, and uses them."""

    def __init__(self, mebibytes: int) -> None:
        super().__init__()
        self.mebibytes = mebibytes

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        taken = np.ones(len(batch["x"]) * (self.mebibytes << 20), np.uint8)
        time.sleep(0.5)
        return super().__call__(batch) if taken[-1] else {}
