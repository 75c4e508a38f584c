"""scikit-learn's handwritten digits, for models of tensors to tell apart."""

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.kinds.models.model import Model, Placement
from tasks.protocol.batch import ROW
from tests.kinds.declared import as_declared

SEEN = 1_500
"""Digits to train on; the others are new to the model."""


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Pixels, (1,797, 64) of float32 from 0 to 1, and which digit they show."""
    from sklearn.datasets import load_digits

    pixels, numbers = load_digits(return_X_y=True)
    return (pixels / 16).astype(np.float32), numbers


def unseen() -> np.ndarray:
    """Pixels that models have not been trained on."""
    return digits()[0][SEEN:]


def rows_of(**columns: Any) -> pa.Table:
    """Columns, with row ids; arrays of two dimensions become lists."""
    arrays = {
        name: pa.array(list(each)) if getattr(each, "ndim", 1) == 2 else pa.array(each)
        for name, each in columns.items()
    }
    count = len(next(iter(arrays.values())))
    return pa.table({ROW: pa.array(range(7, 7 + count), pa.int64()), **arrays})


def predicted(model: Model, rows: pa.Table, **placement: Any) -> pa.Table:
    """What a kind makes of rows, once it has checked itself."""
    model.check()
    return as_declared(model, rows, model.predictor(Placement(**placement))(rows))


def values(made: pa.Table, column: str = "prediction") -> np.ndarray:
    """An output column as an array."""
    return np.asarray(made[column].to_pylist())


@cache
def weights() -> tuple[np.ndarray, np.ndarray]:
    """What tells most digits apart: a matrix of (64, 10) and a bias for each digit."""
    pixels, numbers = digits()[0][:SEEN], digits()[1][:SEEN]
    wanted = np.eye(10)[numbers]
    matrix, bias = np.zeros((64, 10)), np.zeros(10)
    for _ in range(200):
        error = softmax(pixels @ matrix + bias) - wanted
        matrix -= pixels.T @ error / SEEN
        bias -= error.mean(0)
    return matrix.astype(np.float32), bias.astype(np.float32)


def logits() -> np.ndarray:
    """What those weights make of unseen digits."""
    matrix, bias = weights()
    return np.asarray(unseen() @ matrix + bias)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Probabilities that add up to one."""
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def digits_module() -> Any:
    """A PyTorch module that knows most of them."""
    import torch

    from tests.kinds.torch_code import Digits

    matrix, bias = map(torch.from_numpy, weights())
    module = Digits().eval()
    module.load_state_dict({"layer.weight": matrix.T.contiguous(), "layer.bias": bias})
    return module
