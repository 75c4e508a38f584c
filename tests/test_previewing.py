"""What a preview says of a run, from the rows that it has."""

import re
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


@pytest.mark.parametrize(
    ("fields", "gates", "told"),
    [
        ({"keep_columns": ["idd"]}, [], "sink.keep_columns: 'idd' is not among .* mean id\\?$"),
        (
            {"keep_columns": [], "partition_by": ["id"]},
            [],
            "sink.partition_by: 'id' is not among .*: label, .*; add it to sink.keep_columns$",
        ),
        (
            {"keep_columns": ["label"]},
            [{"kind": "nulls", "column": "id", "max_fraction": 0}],
            "gates.0.column: 'id' is not among .*; add it to sink.keep_columns$",
        ),
        ({"keep_columns": ["label"], "partition_by": ["predicted_label"]}, [], None),
    ],
)
def test_columns_that_a_run_would_not_find_are_told_whose_model_alone_knows_its_own(
    tmp_path: Path, fields: dict[str, Any], gates: list[Any], told: str | None
) -> None:
    """The run fails on its first batch; a preview keeps all columns, and met none of it."""
    make_inputs(tmp_path / "in")
    sink = {"kind": "parquet", "path": str(tmp_path / "out"), **fields}
    said = previewed(classify_spec(tmp_path, sink=sink, gates=gates))
    assert [bool(re.search(told or "", line)) for line in said] == [True] * (told is not None)


@pytest.mark.parametrize(
    ("sink", "keys", "told"),
    [
        ({}, [1, 1, 2], "sink.key: ['key'] are the same in several rows of this run, 1 time"),
        ({"newest_by": "at"}, [1, None, 2], "sink.key: ['key'] is missing in some rows: leave"),
        ({"newest_by": "at"}, [1, 1, 2], "FAILED  rows written: 2, at least 3 is required"),
        ({"newest_by": "at"}, [1, 3, 2], None),
    ],
)
def test_keys_by_which_a_run_would_be_held_back_are_told(
    tmp_path: Path, sink: dict[str, Any], keys: list[int | None], told: str | None
) -> None:
    """It was held back once all of its rows were predicted."""
    (tmp_path / "in").mkdir()
    rows = pa.table({"id": [1, 2, 3], "key": keys, "at": [1, 2, 3]})
    pq.write_table(rows, tmp_path / "in/a.parquet")
    table = {"kind": "delta", "path": str(tmp_path / "out"), "mode": "upsert", "key": ["key"]}
    spec = classify_spec(
        tmp_path,
        model={"kind": "python", "class": "report_models:Parity"},
        sink={**table, **sink},
        gates=[rows_gate(minimum=3)],
    )
    said = previewed(spec)
    assert [line.startswith(told or "") for line in said] == [True] * (told is not None)
