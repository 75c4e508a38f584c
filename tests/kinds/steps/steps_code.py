"""What users bring as steps."""

from typing import Any

import numpy as np

Batch = dict[str, np.ndarray]


def upper(batch: Batch) -> dict[str, Any]:
    return {**batch, "name": [each.upper() for each in batch["name"]]}


def reversed_rows(batch: Batch) -> Batch:
    return {name: values[::-1] for name, values in batch.items()}


def contrary(batch: Batch) -> Batch:
    return {**batch, "good": ~batch["good"]}


def even_only(batch: Batch) -> Batch:
    keep = batch["x"] % 2 == 0
    return {name: values[keep] for name, values in batch.items()}


def repeated(batch: Batch) -> dict[str, Any]:
    return {"__row": np.repeat(batch["__row"], batch["x"]), "piece": np.arange(batch["x"].sum())}


def reserved(batch: Batch) -> dict[str, Any]:
    return {**batch, "__mine": batch["x"]}


def brightness(batch: Any) -> Any:
    batch["brightness"] = np.array([image.mean() for image in batch["image"]])
    return batch


def darker(batch: Batch) -> Batch:
    batch["image"] -= 1
    return batch


def bright_only(batch: Batch) -> Batch:
    keep = [at for at in (2, 1, 0) if batch["image"][at].mean() > 4]
    return {name: values[keep] for name, values in batch.items()}


class Add:
    def __init__(self, amount: int) -> None:
        self.amount = amount

    def __call__(self, batch: Batch) -> Batch:
        return {"x": batch["x"] + self.amount}
