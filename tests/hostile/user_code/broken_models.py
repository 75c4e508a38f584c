"""Models that break, each in a way of its own, at the row whose x is `at`."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

Batch = dict[str, np.ndarray]


def exits(values: np.ndarray) -> Any:
    """As a script would."""
    sys.exit(3)


class Unsayable(RuntimeError):
    """Says a number where a text is wanted."""

    def __str__(self) -> str:
        return 7  # type: ignore[return-value]


def raises_unsayable(values: np.ndarray) -> Any:
    """As a client that was only ever tried where all goes well."""
    raise Unsayable


BREAKS: dict[str, Callable[[np.ndarray], Any]] = {
    "raises": lambda values: 1 // 0,
    "raises what cannot be said": raises_unsayable,
    "returns fewer": lambda values: values[1:],
    "returns another type": lambda values: np.full(len(values), "many"),
    "returns NaN": lambda values: np.full(len(values), np.nan),
    "returns nothing": lambda values: None,
    "exits": exits,
    "has no memory": lambda values: np.empty(1 << 50),
}


class Breaks:
    """Doubles x, but for where it breaks."""

    def __init__(self, how: str, at: float) -> None:
        self.break_down, self.at = BREAKS[how], at

    def __call__(self, batch: Batch) -> dict[str, Any]:
        """One number a row, as a rule."""
        broken = self.at in batch["x"]
        return {"doubled": self.break_down(batch["x"]) if broken else 2 * batch["x"]}
