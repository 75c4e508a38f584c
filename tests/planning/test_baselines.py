"""Which of the published runs a run is compared with."""

from typing import Any

import pyarrow as pa
import pytest

from tasks.planning.baselines import last_run
from tasks.protocol.ledger import Entry, Snapshot
from tasks.protocol.ledger_lines import LINE_SCHEMA

NO_INPUTS = LINE_SCHEMA.empty_table().select(["path", "identity", "shard"])


def of_rows(rows: int, column: str = "x") -> dict[str, Any]:
    """What a run of so many rows leaves; of some there was no value."""
    missing = rows // 4
    counts = [rows - missing, 0]
    return {column: {"kind": "values", "values": ["a"], "counts": counts, "missing": missing}}


def published(*runs: dict[str, Any]) -> Snapshot:
    """A ledger in which runs have left distributions, a version each."""
    entries = [
        Entry(f"{at}", "run", NO_INPUTS, details={"distributions": run} if run else {}).lines(at)
        for at, run in enumerate(runs, 1)
    ]
    return Snapshot(len(runs), pa.concat_tables(entries))


@pytest.mark.parametrize(
    ("sizes", "rows", "version"),
    [
        ([1_000, 900], 1_000, 2),
        ([1_000, 10], 1_000, 1),  # a late file of ten rows
        ([1_000, 10], 20, 2),  # is as good as any for so few
        ([1_000, 10], 10, 2),
        ([1_000, 499], 1_000, 1),
        ([1_000, 500], 1_000, 2),
        ([1_000, 900, 10, 10], 1_000, 2),
        ([1_000, 500, 10], 999, 2),
        ([10], 1_000, 1),  # the first was small
        ([10, 1_000, 10], 1_000_000, 2),  # none has half: the largest
        ([1_000, 900, 10], 1_000_000, 2),  # or one that is not much smaller, and later
        ([1_000, 10], 0, 2),  # where nobody knows yet
        ([1_000_000, 10_000, 10_000], 20_001, 3),  # the first load is no measure for ever
        ([1_000_000, 999], 20_001, 1),
    ],
)
def test_the_last_run_that_has_at_least_half_as_many_rows(
    sizes: list[int], rows: int, version: int
) -> None:
    found = last_run(published(*map(of_rows, sizes)), rows, "out").columns["x"]
    assert found.version == f"version {version} of out"
    assert found.distribution == of_rows(sizes[version - 1])["x"]
    assert found.is_last is (version == len(sizes))


def test_each_column_has_a_last_run_of_its_own() -> None:
    """Gates come and go, and a redrive leaves nothing."""
    seen = published(of_rows(100), of_rows(90, "y"), of_rows(10) | of_rows(10, "y"), {})
    found = last_run(seen, 100).columns
    assert {name: each.version for name, each in found.items()} == {
        "x": "version 1",
        "y": "version 2",
    }
    assert last_run(published({}), 100).columns == {}
