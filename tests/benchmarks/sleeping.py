"""A step and a model that sleep: what bounds a job is then known, however busy the machine is."""

import time
from typing import Any

import numpy as np

Batch = dict[str, np.ndarray]


def step(batch: Batch) -> Batch:
    """Sleep as long as the rows say."""
    time.sleep(float(batch["step_seconds"].sum()))
    return batch


class Model:
    """Sleeps as long as it was told, for each batch."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, batch: Batch) -> dict[str, Any]:
        time.sleep(self.seconds)
        return {"doubled": batch["id"] * 2}
