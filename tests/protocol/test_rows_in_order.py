"""Texts of many objects come in another order part by part, and are what they were."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.protocol import texts
from tasks.protocol.plan_file import SHARD_SCHEMA

Lines = list[tuple[str, int | None]]
LINES = st.lists(st.tuples(st.text(max_size=3), st.none() | st.integers(0, 9)), max_size=9)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES, st.integers(1, 3), st.randoms(use_true_random=False))
def test_rows_in_another_order(
    monkeypatch: pytest.MonkeyPatch, lines: Lines, size: int, random: Random
) -> None:
    monkeypatch.setattr(texts, "ROWS_AT_A_TIME", size)
    paths, rows = ([line[at] for line in lines] for at in range(2))
    same = {
        name: pa.nulls(len(lines), SHARD_SCHEMA.field(name).type) for name in SHARD_SCHEMA.names
    }
    columns = {**same, "path": pa.array(paths, pa.string()), "rows": pa.array(rows, pa.int64())}
    whole = pa.table(columns, schema=SHARD_SCHEMA)
    table = pa.concat_tables([whole.slice(0, len(lines) // 2), whole.slice(len(lines) // 2)])
    order = random.sample(range(len(lines)), len(lines))
    found = texts.in_order(table, np.array(order, np.int64))
    assert found.schema == SHARD_SCHEMA
    assert found.to_pylist() == [whole.to_pylist()[at] for at in order]
