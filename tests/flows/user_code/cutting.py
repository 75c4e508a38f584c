"""A step and models that say how many rows they were handed."""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

Batch = dict[str, Any]


def log(folder: str, rows: int) -> None:
    """Note rows in a file of this process, in one write, so that a kill cannot tear it."""
    with Path(folder, f"{os.getpid()}.log").open("ab", buffering=0) as opened:
        opened.write(f"{rows}\n".encode())


def handed(folder: str) -> int:
    """Rows that all processes have noted."""
    files = Path(folder).glob("*.log")
    return sum(int(line) for file in files for line in file.read_text().split())


def wait(folder: str, rows: int | None) -> None:
    """With so many rows noted, go on when a file is there that somebody else makes."""
    while rows is not None and handed(folder) >= rows and not Path(folder, "go").exists():
        time.sleep(0.05)


class Prepare:
    """Refuses every 50th row, filters every 7th, makes two rows of every 5th."""

    def __init__(
        self,
        folder: str,
        seconds: float = 0.0,
        dies: int | None = None,
        waits: int | None = None,
    ) -> None:
        self.folder, self.seconds, self.dies, self.waits = folder, seconds, dies, waits

    def __call__(self, batch: Batch) -> Batch:
        ids = batch["id"]
        dead = Path(self.folder, "died")
        if self.dies in ids and not dead.exists():
            dead.touch()
            raise OSError(5, "the disk of the step is gone for a moment")
        if (ids % 50 == 3).any():
            raise ValueError("a row that cannot be prepared")
        wait(self.folder, self.waits)
        log(self.folder, len(ids))
        time.sleep(self.seconds)
        times = np.where(ids % 7 == 1, 0, np.where(ids % 5 == 0, 2, 1))
        children = {name: np.repeat(values, times) for name, values in batch.items()}
        # Its type is the batch's own: what is kept is no table of one schema.
        return {**children, "wide": np.ones((times.sum(), 1 + len(ids) % 3))}


class Score:
    """Predicts from what was prepared; refuses every 40th row."""

    def __init__(
        self,
        folder: str,
        factor: float = 2.0,
        dies: int | None = None,
        waits: int | None = None,
    ) -> None:
        self.folder, self.factor, self.dies, self.waits = folder, factor, dies, waits

    def __call__(self, batch: Batch) -> Batch:
        ids = batch["id"]
        dead = Path(self.folder, "died")
        if self.dies in ids and not dead.exists():
            dead.touch()
            raise OSError(5, "the device is gone for a moment")
        if (ids % 40 == 9).any():
            raise ValueError("a row that cannot be scored")
        wait(self.folder, self.waits)
        log(self.folder, len(ids))
        return {"score": batch["x"] * self.factor + batch["wide"][:, 0]}


class Refuse:
    """A step that does not take one row, where there is one."""

    def __init__(self, refused: int | None = None) -> None:
        self.refused = refused

    def __call__(self, batch: Batch) -> Batch:
        if self.refused in batch["id"]:
            raise ValueError(f"cannot prepare {self.refused}")
        return batch
