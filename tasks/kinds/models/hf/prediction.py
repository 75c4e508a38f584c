"""The loop that every classification and embedding shares: batches in any order, rows in theirs."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tasks.kinds.models.arrays import Columns, Index, with_columns
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.torch_threads import torch_threads


class Inputs(Protocol):
    """Cuts rows into what a model is called with."""

    def batches(self, rows: pa.Table) -> Iterator[tuple[Index, dict[str, Any]]]:
        """Positions of the rows in a batch, and the model's arguments."""

    def blank(self) -> dict[str, Any]:
        """Arguments for one made-up row: what comes out shows the shape."""


def predict_with(
    inputs: Inputs,
    forward: Callable[[dict[str, Any]], Any],
    finish: Callable[[Any], Columns],
    placement: Placement,
) -> Function:
    """A predictor that calls `forward` on batches and makes columns of all its vectors."""
    import torch

    def predict(rows: pa.Table) -> pa.Table:
        order, parts = [], []
        with torch.inference_mode(), torch_threads(placement.num_threads):
            for index, arguments in inputs.batches(rows):
                order.append(index)
                parts.append(forward(arguments))
            # One transfer at the end: one for each batch would make the device wait.
            vectors = (torch.cat(parts) if parts else forward(inputs.blank())[:0]).float().cpu()
            if parts:
                vectors = vectors[torch.from_numpy(np.argsort(np.concatenate(order)))]
            return with_columns(rows, finish(vectors))

    return predict
