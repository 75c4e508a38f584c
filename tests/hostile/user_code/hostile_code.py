"""A model that looks at all it gets."""

from typing import Any

import numpy as np


class Look:
    """Says how much there is of each row's first column of media, else of its first."""

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        """One number a row."""
        column = batch[next((each for each in ("image", "audio") if each in batch), min(batch))]
        return {"size": np.array([np.size(value) for value in column], np.int64)}
