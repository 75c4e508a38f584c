"""Whether user code left a value as it was handed over."""

from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

PLAIN = {str, bytes, bool, int, Decimal, date, datetime, time, timedelta}
"""Types whose values are the same where they are equal, and have no NaN."""
MANY = 1_000
"""Values in an array for which it takes longer to join it to others than to call NumPy once."""


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
    """The same for lists, quickly where they hold values of one type, or none."""
    if len(sent) != len(back):
        return False
    kinds = {*map(type, sent), *map(type, back)} - {type(None)}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind in PLAIN:
        return [*sent] == [*back]
    if kind not in (dict, np.ndarray):
        return all(map(alike, sent, back))
    if [each is None for each in sent] != [each is None for each in back]:
        return False
    left = [[each for each in values if each is not None] for values in (sent, back)]
    return alike_dicts(*left) if kind is dict else alike_pieces(*left)


def alike_dicts(sent: list[dict[Any, Any]], back: list[dict[Any, Any]]) -> bool:
    """The same for dicts, key by key where all have the same."""
    keys = sent[0].keys()
    if any(each.keys() != keys for each in (*sent, *back)):
        return all(map(alike, sent, back))
    columns = ([[each[key] for each in values] for values in (sent, back)] for key in keys)
    return all(alike_lists(*pair) for pair in columns)


def alike_pieces(sent: list[np.ndarray], back: list[np.ndarray]) -> bool:
    """The same for arrays, quickly where they are small rows of one type."""
    dtypes, shapes = [each.dtype for each in sent], [each.shape for each in sent]
    if dtypes != [each.dtype for each in back] or shapes != [each.shape for each in back]:
        return False
    if all(len(shape) == 1 and shape[0] <= MANY for shape in shapes):
        if all(each == dtypes[0] for each in dtypes):
            return alike_arrays(np.concatenate(sent), np.concatenate(back))
        if not any(each.hasobject for each in dtypes) and lists_of(sent) == lists_of(back):
            return True  # such as texts of differing lengths
    return all(map(alike_arrays, sent, back))


def lists_of(arrays: Iterable[np.ndarray]) -> list[Any]:
    """Arrays as lists."""
    return [each.tolist() for each in arrays]


def alike_arrays(sent: np.ndarray, back: np.ndarray) -> bool:
    """The same for arrays."""
    if sent.dtype != back.dtype or sent.shape != back.shape:
        return False
    if sent.dtype == object:
        return alike_lists(sent.ravel().tolist(), back.ravel().tolist())
    if np.array_equal(sent, back):
        return True  # at once, where to look for NaN takes five times as long
    return np.array_equal(sent, back, equal_nan=sent.dtype.kind in "fcmM")


def alike_texts(sent: np.ndarray, back: Any) -> bool:
    """The same for texts that were handed over as objects of Python's, None among them.

    Nothing but a text is equal to one, so types need not be looked at.
    """
    if not isinstance(back, np.ndarray) or back.dtype != object or back.shape != sent.shape:
        return False
    try:
        return bool(sent.tolist() == back.tolist())
    except (TypeError, ValueError):  # arrays, say, or pandas' NA, which are not true or false
        return False
