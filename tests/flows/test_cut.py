"""A run that is cut into two jobs: the same rows, and nothing of the first job done twice."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from flows.batch_inference import batch_inference
from flows.preview import preview
from tasks.errors import ErrorBudgetExceeded, StageFailed
from tasks.published import rows_set_aside
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

STEPPED = [each for each in range(1000) if each % 50 != 3]
"""Rows that the step takes."""


def logs(folder: Path, name: str) -> str:
    """A folder that user code writes its rows to."""
    (folder.parent / name).mkdir(exist_ok=True)
    return str(folder.parent / name)


def handed(folder: Path, name: str) -> int:
    """Rows that user code was handed in batches that came back."""
    files = (folder.parent / name).glob("*.log")
    return sum(int(line) for file in files for line in file.read_text().split())


def cut_spec(
    folder: Path,
    out: str = "out",
    step: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    materialize: bool = True,
    **changes: Any,
) -> BatchInferenceSpec:
    """Prepares and scores the numbers; their logs are `steps` and `models`."""
    read = {"rows_per_batch": 50, "max_workers": 1}
    kept = {"materialize": materialize, "path": str(folder.parent / "kept"), "max_workers": 1}
    given: dict[str, Any] = {
        "steps": [
            {
                "kind": "python",
                "function": "cutting:Prepare",
                "with_row_ids": True,
                "init": {"folder": logs(folder, "steps"), **(step or {})},
            }
        ],
        "model": {
            "kind": "python",
            "class": "cutting:Score",
            "init": {"folder": logs(folder, "models"), **(model or {})},
        },
        "sink": {"kind": "parquet", "path": str(folder.parent / out), "keep_columns": ["id", "x"]},
        "stages": {"read": read, "preprocess": kept, "write": {"max_workers": 1}},
        "errors": {"max_rejected_fraction": 0.1},
        **changes,
    }
    return spec_of(folder, **given)


def aside(spec: BatchInferenceSpec) -> list[tuple[Any, ...]]:
    """What was set aside, and why."""
    names = ("source", "row", "stage", "error_type", "error_message", "input_json")
    return sorted(tuple(row[name] for name in names) for row in rows_set_aside(spec))


def test_what_is_published_is_as_without_the_cut(numbers: Path) -> None:
    whole = batch_inference(cut_spec(numbers, "whole", materialize=False))
    cut = batch_inference(cut_spec(numbers, "cut"))
    assert published(cut_spec(numbers, "cut")) == published(cut_spec(numbers, "whole"))
    assert aside(cut_spec(numbers, "cut")) == aside(cut_spec(numbers, "whole"))
    assert min(cut["rows"].values()) > 0
    assert cut["rows"] == whole["rows"]
    counts = ("rows", "rejected", "filtered")
    for stage, figures in whole["stages"].items():
        assert {n: cut["stages"][stage][n] for n in counts} == {n: figures[n] for n in counts}
    assert cut["stages"]["preprocess"]["seconds"] > 0


def test_the_next_model_takes_what_was_kept(numbers: Path) -> None:
    batch_inference(cut_spec(numbers))
    prepared = handed(numbers, "steps")
    report = batch_inference(cut_spec(numbers, "other", model={"factor": 3.0}))
    assert handed(numbers, "steps") == prepared
    rows = published(cut_spec(numbers, "other"))
    assert [row["score"] for row in rows] == [3.0 * row["id"] + 1 for row in rows]
    assert report["rows"]["written"] == len(rows) == len(published(cut_spec(numbers)))
    assert report["stages"]["preprocess"]["seconds"] == 0
