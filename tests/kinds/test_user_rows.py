"""Rows that came back from user code, found again by their ids."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import UserCodeBroke
from tasks.kinds.user_rows import positions
from tasks.protocol.ids import as_ids

FEW = st.lists(st.integers(0, 5), max_size=8)
ASCENDING = FEW.map(sorted)


@given(FEW | ASCENDING | st.sets(st.integers(0, 5)).map(sorted), FEW | ASCENDING)
def test_rows_are_found_by_their_ids(sent: list[int], back: list[int]) -> None:
    counts = Counter(sent)
    unknown = sorted({each for each in back if each not in counts})
    parted = [each for each in back if counts[each] > 1 and back.count(each) != counts[each]]
    if unknown:
        told = re.escape(f"not given: {unknown[:3]}")
        with pytest.raises(UserCodeBroke, match=told):
            positions(as_ids(sent), as_ids(back))
    elif parted:
        with pytest.raises(UserCodeBroke, match=f"the row {parted[0]} was given as"):
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
