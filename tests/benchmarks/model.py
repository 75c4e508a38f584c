"""A model that computes for a while and writes down when."""

import os
import time
from pathlib import Path

import numpy as np

Batch = dict[str, np.ndarray]


class Busy:
    """Multiplies matrices for each batch; leaves its first and last moment in a file."""

    def __init__(self, log: str, rounds: int = 100) -> None:
        self.file = Path(log) / f"{os.getpid()}.txt"
        self.weights = np.random.default_rng(0).standard_normal((256, 256))
        self.rounds = rounds

    def __call__(self, batch: Batch) -> Batch:
        begun = time.time()
        state = np.repeat(batch["x"][:, None], 256, axis=1)
        for _ in range(self.rounds):
            state = np.tanh(state @ self.weights)
        with self.file.open("a") as file:
            file.write(f"{begun} {time.time()} {len(batch['x'])}\n")
        return {"id": batch["id"], "x": batch["x"], "y": state[:, 0]}


def steady(log: Path) -> tuple[float, int]:
    """Seconds from the first to the last batch, and rows, over all replicas."""
    lines = [line.split() for file in log.iterdir() for line in file.read_text().splitlines()]
    begun, ended = min(float(each[0]) for each in lines), max(float(each[1]) for each in lines)
    return ended - begun, sum(int(each[2]) for each in lines)
