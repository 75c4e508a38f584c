"""Models that the report's tests run, imported from a working_dir as a user's are."""

import os
import time
from typing import Any

import numpy as np

NAMES = np.array(["cat", "<b>dog</b>"], dtype=object)


class Classify:
    """Odd ids are dogs; every tenth row is taken for the other. Ids named `bad` cannot be read.

    What it is given besides changes nothing.
    """

    def __init__(
        self, bad: list[int] | None = None, crash_at: int = -1, marker: str = "", **_: Any
    ) -> None:
        self.bad, self.crash_at, self.marker = bad or [], crash_at, marker

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        ids = batch["id"]
        if self.crash_at in ids and not os.path.exists(self.marker):
            open(self.marker, "w").close()
            raise ConnectionError("the model's server is gone, key hunter2hunter2")
        if np.isin(ids, self.bad).any():
            raise ValueError("</pre><script>alert(1)</script>\n\n[x](javascript:alert(2))")
        time.sleep(0.02)
        guess = (ids + (ids % 10 == 0)) % 2
        return {"label": NAMES[ids % 2], "predicted_label": NAMES[guess], "text": texts(ids)}


def texts(ids: Any) -> Any:
    """What a browser must not run."""
    return np.array([f"<img src=x onerror=alert({each})>" for each in ids], dtype=object)


class Misspelt:
    """Takes the batch for an object that it is not, or a whole batch for wrong."""

    def __init__(self, error: str = "AttributeError") -> None:
        self.error = error

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        if self.error == "AttributeError":
            return {"predicted_label": batch.idd}  # type: ignore[attr-defined]
        raise ValueError(f"{self.error}: {batch['id'][0]}")


class Brightness:
    """The mean of an image's pixels."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"brightness": np.array([float(each.mean()) for each in batch["image"]])}


class Parity:
    """Whether an id is odd; there is no label to compare it with."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"predicted_label": NAMES[batch["id"] % 2]}
