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

from tasks.plan import PlannedRun, make_plan
from tasks.protocol.ledger_lines import LedgerFiles
from tasks.protocol.plan_file import first_plan, whole_files
from tasks.publish import brings_rows_to_judge
from tasks.reporting.evidence import Evidence
from tests.reporting import classify_spec, make_inputs

INPUTS = 100_000


@pytest.fixture
def planned(tmp_path: Path) -> PlannedRun:
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    names = [f"{number:06d}" for number in range(INPUTS)]
    files = pa.table({"path": names, "identity": names, "size": [10**6] * INPUTS})
    plan = first_plan(whole_files(files, rows=None), planned.plan.pins)
    return replace(planned, plan=plan)


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


def test_the_published_files_of_a_run_are_found_with_one_look_at_it() -> None:
    """Its folder was made anew for each file of the output."""
    lines = [{"path": f"{number}", "run_id": "mine", "ids": "[]"} for number in range(9)]
    same = {"staged": "", "size": 1, "line": "file", "version": 1, "details": ""}
    run = PropertyMock(return_value=SimpleNamespace(run_id="mine"))
    planned = type("Planned", (), {"run": run})()
    seen = SimpleNamespace(files=LedgerFiles({**line, **same} for line in lines))
    evidence: Any = SimpleNamespace(planned=planned, ledger=seen)
    assert (len(Evidence.published(evidence)), run.call_count) == (9, 1)
