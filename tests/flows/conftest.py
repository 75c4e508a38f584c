"""A small job, and a cluster elsewhere to run it on."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.spec import BatchInferenceSpec
from tasks.spec_file import parse_spec

CODE = Path(__file__).parent / "user_code"
ONE_WORKER = {"max_workers": 1}


@pytest.fixture(autouse=True)
def signals_kept() -> Iterator[None]:
    """A command, whose process is to end next, leaves other handlers than it has found."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Ten Parquet files of 100 rows: id, and x = id."""
    folder = tmp_path / "numbers"
    folder.mkdir()
    for number in range(10):
        ids = list(range(number * 100, number * 100 + 100))
        table = pa.table({"id": ids, "x": [float(each) for each in ids]})
        pq.write_table(table, folder / f"{number}.parquet")
    return folder


def spec_of(folder: Path, **changes: Any) -> BatchInferenceSpec:
    """A small job: parquet, a class that doubles x, parquet.

    Each stage has one worker: starting processes takes most of a small job's time.
    """
    raw: dict[str, Any] = {
        "name": "doubling",
        "source": {"kind": "parquet", "path": str(folder)},
        "model": {"kind": "python", "class": "predictors:Double"},
        "sink": {"kind": "parquet", "path": str(folder.parent / "out")},
        "cluster": {"kind": "inline"},
        "environment": {"working_dir": str(CODE)},
        "stages": {"read": {"rows_per_batch": 50, **ONE_WORKER}, "write": ONE_WORKER},
        "resources": {"max_replicas": 1},
        "retries": {"max_attempts": 1},
    }
    return parse_spec({**raw, **changes})


def published(spec: BatchInferenceSpec) -> list[dict[str, Any]]:
    """All published rows, by id."""
    files = sorted(Path(spec.sink.path).rglob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted(rows, key=lambda row: row["id"])
