"""The loop that every classification and embedding shares: batches in any order, rows in theirs."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.models.hf.checkpoint import torch_threads
from tasks.kinds.models.model import Function, Placement
from tasks.protocol.batch import RESERVED, ROW

Index = npt.NDArray[np.int64]
Columns = dict[str, pa.Array]


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


def with_columns(rows: pa.Table, outputs: Columns) -> pa.Table:
    """Rows with output columns and without what was needed only on the way.

    Raises:
        InvalidSpec: an input column has an output column's name.
    """
    helpers = [n for n in rows.column_names if n.startswith(RESERVED) and n != ROW]
    rows = rows.drop_columns(helpers)
    for name, values in outputs.items():
        if name in rows.column_names:
            problem = "is also the name of what the model gives; rename or drop that input column"
            raise InvalidSpec.at("input column", name, problem)
        rows = rows.append_column(name, values)
    return rows


def slices(count: int, size: int) -> Iterator[Index]:
    """Positions 0 to count - 1 in pieces."""
    for start in range(0, count, size):
        yield np.arange(start, min(start + size, count))


def column_of(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """The model's input column.

    Raises:
        InvalidSpec: it is not there.
    """
    if name not in rows.column_names:
        have = [each for each in rows.column_names if not each.startswith(RESERVED)]
        raise InvalidSpec.at("model.column", name, f"is not among the columns {have}")
    return rows[name]
