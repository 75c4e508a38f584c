"""Whether user code left a value as it was handed over."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

TEXTS = {str, bytes, type(None)}


def alike(sent: Any, back: Any) -> bool:
    """Whether user code left a value as it was; NaN equals NaN."""
    if sent is back:
        return True
    if type(sent) is not type(back):
        return False
    if isinstance(sent, pd.Series):
        plain = isinstance(sent.dtype, np.dtype) and isinstance(back.dtype, np.dtype)
        if not plain:  # compared by place, whatever became of the index
            return sent.reset_index(drop=True).equals(back.reset_index(drop=True))
        return alike_arrays(sent.to_numpy(), back.to_numpy())
    if isinstance(sent, np.ndarray):
        return alike_arrays(sent, back)
    if isinstance(sent, (list, tuple)):
        return alike_lists(sent, back)
    if isinstance(sent, dict):
        return sent.keys() == back.keys() and all(alike(sent[key], back[key]) for key in sent)
    return bool(sent == back or (sent != sent and back != back))


def alike_lists(sent: Sequence[Any], back: Sequence[Any]) -> bool:
    """The same for lists, quickly where they hold texts."""
    if len(sent) != len(back):
        return False
    if set(map(type, sent)) | set(map(type, back)) <= TEXTS:
        return sent == back
    return all(map(alike, sent, back))


def alike_arrays(sent: np.ndarray, back: np.ndarray) -> bool:
    """The same for arrays."""
    if sent.dtype != back.dtype or sent.shape != back.shape:
        return False
    if sent.dtype == object:
        return alike_lists(sent.ravel().tolist(), back.ravel().tolist())
    return np.array_equal(sent, back, equal_nan=sent.dtype.kind in "fcmM")
