"""What users bring as steps."""

from typing import Any

import numpy as np

Batch = dict[str, np.ndarray]


def upper(batch: Batch) -> dict[str, Any]:
    return {**batch, "name": [each.upper() for each in batch["name"]]}


def reversed_rows(batch: Batch) -> Batch:
    return {name: values[::-1] for name, values in batch.items()}


def even_only(batch: Batch) -> Batch:
    keep = batch["x"] % 2 == 0
    return {name: values[keep] for name, values in batch.items()}


def repeated(batch: Batch) -> dict[str, Any]:
    return {"__row": np.repeat(batch["__row"], batch["x"]), "piece": np.arange(batch["x"].sum())}


def reserved(batch: Batch) -> dict[str, Any]:
    return {**batch, "__mine": batch["x"]}


class Add:
    def __init__(self, amount: int) -> None:
        self.amount = amount

    def __call__(self, batch: Batch) -> Batch:
        return {"x": batch["x"] + self.amount}
