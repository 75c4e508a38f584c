"""A small job to report on, run through the functions, without Prefect."""

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.markdown import Markdown

from tasks.plan import PlannedRun, make_plan
from tasks.protocol.acceptance import Gap
from tasks.publish import publish_planned
from tasks.ray_job.result import failure
from tasks.report import report_run
from tasks.reporting.run_report import RunReport
from tasks.run import left_to_do, next_attempt
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import parse_spec

CODE = Path(__file__).parent / "report_code"


def make_inputs(folder: Path, files: int = 4, rows: int = 50) -> Path:
    """Parquet files with the column id."""
    folder.mkdir()
    for number in range(files):
        ids = list(range(number * rows, (number + 1) * rows))
        pq.write_table(pa.table({"id": ids}), folder / f"{number}.parquet")
    return folder


def classify_spec(folder: Path, init: dict[str, Any] | None = None, **more: Any) -> Any:
    """Classify the inputs in `folder`/in, 50 rows at a time."""
    raw: dict[str, Any] = {
        "name": "Pets_nightly",
        "source": {"kind": "parquet", "path": str(folder / "in")},
        "model": {"kind": "python", "class": "report_models:Classify", "init": init or {}},
        "sink": {"kind": "parquet", "path": str(folder / "out")},
        "cluster": {"kind": "inline"},
        "environment": {"working_dir": str(CODE)},
        "stages": {"read": {"rows_per_batch": 50}},
        "errors": {"max_rejected_fraction": 0.5},
        "retries": {"max_attempts": 1},
    }
    return parse_spec({**raw, **more})


def run_attempt(planned: PlannedRun, gap: Gap | None = None) -> None:
    """One attempt at a gap, or at what is left to do; raise what it failed with."""
    attempt = next_attempt(planned, gap or left_to_do(planned, tried=False))
    attempt.ensure_started()
    try:
        while (result := attempt.look().result) is None:
            time.sleep(0.01)
    finally:
        attempt.stop()
    error = failure(result)
    if error:
        raise error


def run_spec(
    spec: BatchInferenceSpec, options: RunOptions | None = None
) -> tuple[PlannedRun, RunReport]:
    """A whole run of one attempt, and its report."""
    started = time.time()
    planned = make_plan(spec, options)
    run_attempt(planned)
    version = publish_planned(planned)
    return planned, report_run(planned, started, version, 1)


def html_in(page: str) -> str:
    """What a browser reads of a Markdown page as HTML: in the rest stars, say, are no stars."""
    return "".join(each.content for each in Markdown(page).parsed if each.type == "html_block")
