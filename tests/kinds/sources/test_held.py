"""Rows of a database are fetched before they are handed on, as many as there is room for."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tasks.kinds.sources.sql_reading.fetched_rows import fetched_first

READS = [pa.table({"id": [n]}) for n in range(4)]


@pytest.mark.parametrize(("most_bytes", "fetched"), [(0, 1), (1 << 20, 4)])
def test_so_many_bytes_are_fetched_first(most_bytes: int, fetched: int) -> None:
    seen = []

    def reads() -> Iterator[pa.Table]:
        for each in READS:
            seen.append(each)
            yield each

    handed_on = fetched_first(reads(), most_bytes)
    first = next(handed_on)
    assert len(seen) == fetched
    assert [first, *handed_on] == READS
