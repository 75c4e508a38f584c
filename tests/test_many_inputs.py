"""Of ten million inputs nobody makes a list that is not needed: each takes a gigabyte or more."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import PropertyMock

import pyarrow as pa
import pytest

from tasks.materializing_run import (
    MaterializingRun,
    plan_materializing_run,
    todo_materialized,
)
from tasks.plan import PlannedRun, make_plan
from tasks.protocol.ids import ROW_BITS, IdRuns
from tasks.protocol.ledger_lines import LedgerFiles
from tasks.protocol.plan_file import first_plan, whole_files
from tasks.protocol.records import Record, StagedFile, to_json
from tasks.protocol.shard_ends import EndRuns
from tasks.publish import brings_rows_to_judge
from tasks.reporting.evidence import Evidence
from tasks.run import left_to_do
from tasks.spec import BatchInferenceSpec
from tests.reporting import classify_spec, make_inputs

INPUTS = 100_000
SINK = {"kind": "parquet"}
BATCH = b"rows"


def of_many(spec: BatchInferenceSpec) -> PlannedRun:
    """A run that is planned, of many inputs in place of those that are there."""
    planned = make_plan(spec)
    names = [f"{number:06d}" for number in range(INPUTS)]
    files = pa.table({"path": names, "identity": names, "size": [10**6] * INPUTS})
    plan = first_plan(whole_files(files, rows=None), planned.plan.pins)
    return replace(planned, plan=plan)


@pytest.fixture
def planned(tmp_path: Path) -> PlannedRun:
    make_inputs(tmp_path / "in")
    return of_many(classify_spec(tmp_path))


def mib_held(call: Callable[[], object]) -> float:
    """How much of Python's memory a call takes at once."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def test_a_plan_is_summed_up_without_a_list_of_its_inputs(planned: PlannedRun) -> None:
    assert mib_held(lambda: planned.summary) < 1
    assert planned.summary.startswith("100,000 to do")


def test_whether_there_is_something_to_judge_takes_no_list(planned: PlannedRun) -> None:
    assert mib_held(lambda: brings_rows_to_judge(planned)) < 1
    assert brings_rows_to_judge(planned)


def keep_all(first: MaterializingRun) -> None:
    """Record what the first job would: of each input a row, in batches of a thousand."""
    for start in range(0, INPUTS, 1_000):
        ids = IdRuns.of(first.plan.numbers[start : start + 1_000] << ROW_BITS)
        ends = EndRuns(((start, 1, 1_000),))
        file = StagedFile(f"{start}.batch", ids, len(BATCH))
        record = Record(f"{start:06}", first.plan.digest, "", (file,), ok=ids, ends=ends)
        first.storage.write(f"{first.run.staging}/{file.name}", BATCH)
        first.storage.write(f"{first.run.records}/{record.name}.json", to_json(record))


def test_rows_are_kept_and_taken_by_the_next_model_without_a_list_of_inputs(
    tmp_path: Path,
) -> None:
    """Of objects it was 62 MiB to keep them, and 97 and 92 to take them."""
    make_inputs(tmp_path / "in")
    kept = {"preprocess": {"materialize": True, "path": str(tmp_path / "kept")}}
    one, other = (
        of_many(
            classify_spec(tmp_path, init, stages=kept, sink={**SINK, "path": str(tmp_path / to)})
        )
        for to, init in (("one", {}), ("other", {"changes": "nothing"}))
    )
    assert mib_held(lambda: plan_materializing_run(one)) < 24
    first = plan_materializing_run(one)
    assert first
    assert len(first.plan.shards) == INPUTS
    keep_all(first)
    assert mib_held(lambda: plan_materializing_run(other)) < 24
    assert plan_materializing_run(other) is None
    gap = left_to_do(other, tried=False)
    assert mib_held(lambda: todo_materialized(other, gap)) < 24
    todo = todo_materialized(other, gap)
    assert (len(todo), sum(todo["rows"].to_pylist())) == (INPUTS // 1_000, INPUTS)


def test_the_published_files_of_a_run_are_found_with_one_look_at_it() -> None:
    """Its folder was made anew for each file of the output."""
    lines = [{"path": f"{number}", "run_id": "mine", "ids": "[]"} for number in range(9)]
    same = {"staged": "", "size": 1, "line": "file", "version": 1, "details": ""}
    run = PropertyMock(return_value=SimpleNamespace(run_id="mine"))
    planned = type("Planned", (), {"run": run})()
    seen = SimpleNamespace(files=LedgerFiles({**line, **same} for line in lines))
    evidence: Any = SimpleNamespace(planned=planned, ledger=seen)
    assert (len(Evidence.published(evidence)), run.call_count) == (9, 1)
