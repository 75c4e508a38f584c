"""Values that came back as they were: the quick ways say what looking at each one says."""

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from tasks.kinds.unchanged_values import MANY, alike, alike_lists, alike_texts

NUMBERS: list[Any] = [0, 1, True, 1.0, -0.0, float("nan"), Decimal(1)]
OTHERS: list[Any] = [None, "a", b"a", "", date(2026, 1, 1)]
ARRAYS: list[Any] = [
    np.array([1.0, np.nan]),
    np.array([1.0, 2.0]),
    np.array([1, 2]),
    np.array([1, 2], np.int32),
    np.array([[1, 2]]),
    np.array([]),
    np.array(["a", "b"]),
    np.array(["a", "bc"]),
    np.array(["a", None], dtype=object),
    np.array([1, True], dtype=object),
    np.arange(MANY + 1),
]
VALUES = st.sampled_from([*NUMBERS, *OTHERS, *ARRAYS]) | st.lists(
    st.sampled_from(NUMBERS + OTHERS), max_size=2
)
MAPPINGS = st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2)
COLUMNS = (
    st.lists(VALUES | MAPPINGS, max_size=3)
    | st.lists(MAPPINGS | st.none(), max_size=3)
    | st.lists(st.sampled_from(ARRAYS) | st.none(), max_size=4)
)


def plainly_alike(sent: Any, back: Any) -> bool:
    """What is meant, for one value."""
    if type(sent) is not type(back):
        return False
    if isinstance(sent, dict):
        return sent.keys() == back.keys() and all(plainly_alike(sent[k], back[k]) for k in sent)
    if isinstance(sent, np.ndarray):
        if (sent.dtype, sent.shape) != (back.dtype, back.shape):
            return False
        sent, back = sent.ravel().tolist(), back.ravel().tolist()
    if isinstance(sent, list):
        return len(sent) == len(back) and all(map(plainly_alike, sent, back))
    return bool(sent == back or (sent != sent and back != back))


def copied(value: Any) -> Any:
    """An equal value that is another object."""
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    if isinstance(value, list):
        return [*map(copied, value)]
    return value.copy() if isinstance(value, np.ndarray) else value


@given(COLUMNS, COLUMNS, st.data())
def test_the_quick_ways_say_what_looking_at_each_value_says(
    sent: list[Any], back: list[Any], data: st.DataObject
) -> None:
    assert alike_lists(sent, back) == plainly_alike(sent, back)
    assert alike_lists(sent, copied(sent))
    if sent:
        at = data.draw(st.integers(0, len(sent) - 1))
        back = [*copied(sent[:at]), data.draw(VALUES | MAPPINGS), *copied(sent[at + 1 :])]
        assert alike(sent, back) == plainly_alike(sent, back)


@given(st.lists(st.sampled_from([*OTHERS, *ARRAYS, 1, pd.NA])), st.data())
def test_texts_are_compared_as_other_values_are(back: list[Any], data: st.DataObject) -> None:
    texts = st.sampled_from(["a", "", None])
    sent = [data.draw(texts) for _ in back]
    for values in (back, [str(each) if each == "a" else None for each in sent]):
        found = np.empty(len(values), dtype=object)
        found[:] = values
        wanted = all(map(plainly_alike, sent, values))
        assert alike_texts(np.array(sent, dtype=object), found) == wanted
