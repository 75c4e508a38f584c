"""Inputs that are mended after a run came to nothing for how they were read."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tasks.errors import ErrorBudgetExceeded
from tasks.plan import make_plan
from tasks.publish import publish_planned
from tests.reporting import classify_spec, run_attempt, run_spec


def test_mended_inputs_are_read_as_they_are_now_where_no_row_is_done(tmp_path: Path) -> None:
    """One word made texts of all ids, also of those in the file that nobody has touched."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "0.csv").write_text("id\nunknown\n")
    (folder / "1.csv").write_text("id\n1\n2\n")
    spec = classify_spec(tmp_path, source={"kind": "csv", "path": str(folder)})
    held_back = make_plan(spec)
    run_attempt(held_back)
    with pytest.raises(ErrorBudgetExceeded, match="3 of 3 rows set aside"):
        publish_planned(held_back)
    (folder / "0.csv").write_text("id\n7\n")
    looked_at = make_plan(spec, save=False)
    planned, _ = run_spec(spec)
    assert planned.run == held_back.run, "its folder and its id stay"
    assert planned.plan == looked_at.plan
    assert not set(held_back.plan.shards["number"]) & set(planned.plan.shards["number"])
    rows = pq.read_table(tmp_path / "out", columns=["id"])
    assert sorted(rows["id"].to_pylist()) == [1, 2, 7]
