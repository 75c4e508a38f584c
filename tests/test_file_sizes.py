"""Many small files: what a report says of them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from flows.printed_report import print_report
from tasks.protocol.ids import IdRuns
from tasks.protocol.records import Record, StagedFile
from tasks.reporting.file_sizes import SECONDS_PER_WRITE, FileSizes, larger_writes
from tests.flows.conftest import spec_of
from tests.reporting import run_spec


def run_of_users(folder: Path, users: int, rows_per_file: int | None) -> tuple[Any, str, str]:
    """What a run of two thousand rows says that writes a folder for each user.

    Returns:
        The sizes of its files, what is printed, and the page.
    """
    source, output = folder / "rows", folder / "out"
    source.mkdir()
    ids = list(range(2000))
    rows = {"id": ids, "x": [0.5] * 2000, "user": [each % users for each in ids]}
    pq.write_table(pa.table(rows), source / "0.parquet")
    sink = {"partition_by": ["user"], "rows_per_file": rows_per_file}
    spec = spec_of(
        source,
        sink={"kind": "parquet", "path": str(output), **sink},
        stages={"read": {"rows_per_batch": 50}},
    )
    report = run_spec(spec)[1].as_json()
    console = Console(record=True, width=200)
    print_report(console, {**report, "flow_run_id": "-"})
    found, files = report["file_sizes"], list(output.rglob("*.parquet"))
    assert found["rows"] == 2000
    assert found["files"] == len(files)
    assert found["bytes"] == sum(file.stat().st_size for file in files)
    return found, console.export_text(), Path(report["report"]).read_text()


def test_many_small_files_are_told_with_the_setting_that_helps(tmp_path: Path) -> None:
    found, *told = run_of_users(tmp_path, users=200, rows_per_file=100)
    assert (found["files"], found["rows_per_file"]) == (2000, 2000)
    words = "many small ones, of 1 row on average; sink.rows_per_file=2000 makes them larger"
    for text in told:
        assert "2,000 files, " in text
        assert words in text


def test_where_nothing_is_set_small_files_are_few(tmp_path: Path) -> None:
    found, *told = run_of_users(tmp_path, users=200, rows_per_file=None)
    assert (found["files"], found["rows_per_file"]) == (250, None)
    for text in told:
        assert "250 files, " in text
        assert "many small ones" not in text


def test_rows_wait_for_no_more_folders_than_a_write_takes(tmp_path: Path) -> None:
    """Nor are so many advised as it would not take."""
    found, *told = run_of_users(tmp_path, users=2000, rows_per_file=None)
    assert (found["files"], found["rows_per_file"]) == (2000, None)
    for text in told:
        assert "many small ones, of 1 row on average" in text
        assert "sink.rows_per_file=" not in text


@pytest.mark.parametrize(
    ("bytes_per_row", "seconds", "advised"),
    [
        (10, 600.0, 1_000_000),  # all of them
        (1_000, 600.0, 60_000),  # as fit in memory
        (10, 6_000.0, 100_000),  # as a crash may cost
        (10, 600_000.0, None),  # which is no more than a write has
        (100_000, 600.0, None),
    ],
)
def test_a_write_waits_for_what_fits_in_memory_and_may_be_lost(
    bytes_per_row: int, seconds: float, advised: int | None
) -> None:
    """A hundred writes of ten thousand rows."""
    file = StagedFile("a", IdRuns(((0, 10_000, 1),)), 10_000 * bytes_per_row)
    records = [Record(str(each), "plan", "schema", (file,)) for each in range(100)]
    found = FileSizes(files=100, rows=1_000_000, bytes=1_000_000 * bytes_per_row)
    assert larger_writes(found, records, seconds) == advised


def test_in_one_digit_a_write_is_larger_too() -> None:
    """Nineteen thousand rows may wait, of which ten thousand are told: of six no twice as many."""
    file = StagedFile("a", IdRuns(((0, 6_000, 1),)), 60_000)
    records = [Record(str(each), "plan", "schema", (file,)) for each in range(100)]
    found = FileSizes(files=100, rows=600_000, bytes=6_000_000)
    assert larger_writes(found, records, seconds_for(19_000)) is None
    assert larger_writes(found, records, seconds_for(21_000)) == 20_000


def seconds_for(rows: int) -> float:
    """Steady seconds of 600,000 rows of which so many come in what a crash may cost."""
    return SECONDS_PER_WRITE * 600_000 / rows
