"""Rows that came back from user code, found again by their ids."""

import re
from collections import Counter
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import UserCodeBroke
from tasks.kinds.user_rows import from_user, positions
from tasks.protocol.ids import as_ids

FEW = st.lists(st.integers(0, 5), max_size=8)
ASCENDING = FEW.map(sorted)


@given(FEW | ASCENDING | st.sets(st.integers(0, 5)).map(sorted), FEW | ASCENDING)
def test_rows_are_found_by_their_ids(sent: list[int], back: list[int]) -> None:
    counts = Counter(sent)
    unknown = sorted({each for each in back if each not in counts})
    parted = [each for each in back if counts[each] > 1 and back.count(each) != counts[each]]
    if unknown:
        told = re.escape(f"did not get: {unknown[:3]}")
        with pytest.raises(UserCodeBroke, match=told):
            positions(as_ids(sent), as_ids(back))
    elif parted:
        with pytest.raises(UserCodeBroke, match=f"it got the row {parted[0]} as"):
            positions(as_ids(sent), as_ids(back))
    else:
        places = {each: [at for at, given in enumerate(sent) if given == each] for each in counts}
        seen = Counter[int]()
        wanted = list[int]()
        for each in back:
            wanted.append(places[each][seen[each] if counts[each] > 1 else 0])
            seen[each] += 1
        found = positions(as_ids(sent), as_ids(back))
        assert wanted == ([*range(len(sent))] if found is None else found.tolist())


MONEY = [Decimal("1.25"), None, Decimal("0.50")]
LATER = [Decimal("-12345678901.00"), Decimal("9.25"), None]
HELD: dict[str, Callable[[list[Decimal | None]], object]] = {
    "a list": lambda values: {"y": values},
    "an array": lambda values: {"y": np.array(values, dtype=object)},
    "a series": lambda values: {"y": pd.Series(values)},
    "a frame": lambda values: pd.DataFrame({"y": values}),
    "lists": lambda values: {"y": [[each] for each in values]},
    "a frame's lists": lambda values: pd.DataFrame({"y": [[each] for each in values]}),
    "objects": lambda values: {"y": [{"a": [each]} for each in values]},
}


@pytest.mark.parametrize("how", HELD)
def test_decimals_have_room_for_what_a_later_night_brings(how: str) -> None:
    first, later = (from_user(HELD[how](values)) for values in (MONEY, LATER))
    assert first.schema.field("y").type == later.schema.field("y").type
    assert "Decimal('-12345678901.00')" in repr(later["y"].to_pylist())


def test_decimals_of_arrows_own_types_keep_them() -> None:
    prices = pa.array(MONEY, pa.decimal128(5, 2))
    frame = pd.DataFrame({"y": pd.Series(prices, dtype=pd.ArrowDtype(prices.type))})
    for returned in ({"y": prices}, pa.table({"y": prices}), frame):
        assert from_user(returned).schema.field("y").type == prices.type


@pytest.mark.parametrize("text", ["1E+30", "0." + "1" * 30])
def test_decimals_of_many_digits_stay_what_they_are(text: str) -> None:
    found = from_user({"y": [Decimal(text)]})["y"]
    assert found.to_pylist() == [Decimal(text)]
    assert found.type.precision <= 38
