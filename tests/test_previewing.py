"""What a preview says of a run, from the rows that it has."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.plan import make_plan
from tasks.previewing import held_back, trial_of
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tests.reporting import classify_spec, make_inputs, run_attempt, run_spec

NONE = {"kind": "filter", "expression": "id < 0"}
SOME = {"kind": "filter", "expression": "id < 20"}


def rows_gate(**bounds: int) -> dict[str, Any]:
    return {"kind": "rows", **bounds}


def previewed(spec: BatchInferenceSpec, rows: int = 60) -> list[str]:
    """Why a run would be held back, after a preview of so many rows."""
    planned = make_plan(trial_of(spec, rows, "mine"), RunOptions(limit=rows))
    if len(planned.plan.shards):
        run_attempt(planned)
    return held_back(planned, spec)


@pytest.mark.parametrize(
    ("steps", "gate", "rows", "is_held"),
    [
        ([NONE], rows_gate(minimum=1), 60, True),  # all rows are like these
        ([NONE], rows_gate(minimum=0, maximum=5), 60, False),
        ([SOME], rows_gate(minimum=50), 60, False),  # how many others pass, nobody knows
        ([SOME], rows_gate(minimum=50), 500, True),  # there are no others
        ([SOME], rows_gate(maximum=19), 500, True),
        ([], rows_gate(minimum=200), 500, False),
        ([], rows_gate(minimum=200), 200, False),
    ],
)
def test_how_many_rows_there_are_is_judged_where_a_preview_knows(
    tmp_path: Path, steps: list[Any], gate: dict[str, Any], rows: int, is_held: bool
) -> None:
    make_inputs(tmp_path / "in")
    spec = classify_spec(tmp_path, steps=steps, gates=[gate])
    said = previewed(spec, rows)
    assert [line.startswith("FAILED  rows written: ") for line in said] == [True] * is_held


@pytest.mark.parametrize(
    ("rows", "allowed", "is_held"), [(60, 2, True), (500, 2, False), (500, 1, True)]
)
def test_rows_that_are_always_allowed_count_where_a_preview_has_seen_all(
    tmp_path: Path, rows: int, allowed: int, is_held: bool
) -> None:
    """Of more rows like these more would be set aside."""
    make_inputs(tmp_path / "in")
    errors = {"max_rejected_fraction": 0.001, "rejected_rows_always_allowed": allowed}
    said = previewed(classify_spec(tmp_path, {"bad": [1, 2]}, errors=errors), rows)
    share, both = "0.001 allows", f"0.001 and errors.rejected_rows_always_allowed {allowed} allow"
    more = f"set aside, more than errors.max_rejected_fraction {share if rows == 60 else both}"
    assert said == [f"2 of {min(rows, 200)} rows {more}"] * is_held


def test_a_preview_is_not_measured_by_a_late_file_of_a_few_rows(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    gates = [{"kind": "drift", "column": "predicted_label", "maximum": 0.2}]
    spec = classify_spec(tmp_path, gates=gates)
    run_spec(spec)
    pq.write_table(pa.table({"id": range(1_001, 1_020, 2)}), tmp_path / "in" / "late.parquet")
    run_spec(spec, RunOptions(accept=True))
    assert previewed(spec, 60) == []


@pytest.mark.parametrize(("mode", "num_held"), [("append", 0), ("replace", 2)])
def test_a_run_without_inputs_is_judged_where_it_would_replace_what_is_published(
    tmp_path: Path, mode: str, num_held: int
) -> None:
    (tmp_path / "in").mkdir()
    spec = classify_spec(
        tmp_path,
        source={"kind": "parquet", "path": str(tmp_path / "in"), "on_empty": "succeed"},
        sink={"kind": "parquet", "path": str(tmp_path / "out"), "mode": mode},
        gates=[rows_gate(minimum=1), {"kind": "nulls", "column": "id", "max_fraction": 0}],
    )
    assert len(previewed(spec)) == num_held
