"""The loop that every classification and embedding shares: batches in any order, rows in theirs."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tasks.kinds.models.arrays import Columns, Index, with_columns
from tasks.kinds.models.model import Function
from tasks.kinds.models.torch_batches import Run


class Inputs(Protocol):
    """Cuts rows into what a model is called with."""

    def batches(self, rows: pa.Table) -> Iterator[tuple[Index, dict[str, Any]]]:
        """Positions of the rows in a batch, and the model's arguments."""

    def blank(self) -> dict[str, Any]:
        """Arguments for one made-up row: what comes out shows the shape."""


def predict_with(inputs: Inputs, run: Run, finish: Callable[[Any], Columns]) -> Function:
    """A predictor that runs batches and makes columns of all their vectors.

    Args:
        inputs: cuts rows into batches.
        run: runs the model over them.
        finish: makes columns of vectors, which are where the model is.
    """
    import torch

    def predict(rows: pa.Table) -> pa.Table:
        made = run(inputs.batches(rows))
        with torch.inference_mode():
            # One transfer at the end: one for each batch would make the device wait.
            vectors = torch.cat([each for _, each in made]) if made else none()
            if made:
                order = np.concatenate([index for index, _ in made])
                vectors = vectors[torch.from_numpy(np.argsort(order)).to(vectors.device)]
            return with_columns(rows, finish(vectors.float()))

    def none() -> Any:
        return run(iter([(np.zeros(1, np.int64), inputs.blank())]))[0][1][:0]

    return predict
