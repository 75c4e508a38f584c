"""What a table's log says of its columns, so that readers need not open files."""

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tasks.kinds.tables.footers import statistics
from tasks.kinds.tables.iceberg_output import IcebergOutput
from tests.tables.bench import TableBench

ROWS = pa.table(
    {
        "number": [3, 1, None, 2],
        "text": ["b", "a", "c", None],
        "long": ["x" * 40] * 4,
        "day": [date(2026, 1, 2), date(2026, 1, 1), None, None],
        "at": pa.array([datetime(999, 1, 1, tzinfo=UTC)] * 4, pa.timestamp("us", "UTC")),
        "nothing": pa.nulls(4, pa.float32()),
        "nan": [1.0, float("nan"), float("inf"), None],
        "list": [[1], [2], [3], None],
    }
)


@pytest.mark.parametrize("row_group_size", [4, 1])
def test_bounds_and_missing_values(tmp_path: Path, row_group_size: int) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet", row_group_size=row_group_size)
    assert statistics(pq.read_metadata(tmp_path / "rows.parquet")) == {
        "numRecords": 4,
        "minValues": {
            "number": 1, "text": "a", "day": "2026-01-01", "at": "0999-01-01T00:00:00.000000Z",
        },
        "maxValues": {
            "number": 3, "text": "c", "day": "2026-01-02", "at": "0999-01-01T00:00:00.000000Z",
        },
        "nullCount": {
            "number": 1, "text": 1, "long": 0, "day": 2, "at": 0, "nothing": 4, "nan": 1,
        },
    }  # fmt: skip


def test_times_that_python_does_not_know_have_no_bounds(tmp_path: Path) -> None:
    at = pa.array([300_000_000_000_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"at": at, "number": [1]}), tmp_path / "rows.parquet")
    found = statistics(pq.read_metadata(tmp_path / "rows.parquet"))
    assert found["minValues"] == found["maxValues"] == {"number": 1}
    assert found["nullCount"] == {"at": 0, "number": 0}


@pytest.mark.parametrize("kind", ["delta"])
def test_delta_has_them(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1"})
    (file,) = pa.table(DeltaTable(bench.sink.path).get_add_actions(flatten=True)).to_pylist()
    assert (file["num_records"], file["min.row"], file["max.score"]) == (3, 0, 0.25)
    assert file["null_count.identity"] == 0


@pytest.mark.parametrize("kind", ["iceberg"])
def test_iceberg_has_them(bench: TableBench) -> None:
    bench.run("k1", {"a": "v1"})
    assert isinstance(bench.table, IcebergOutput)
    with bench.table.loaded() as table:
        (file,) = table.inspect.files()["readable_metrics"].to_pylist()
    assert (file["row"]["lower_bound"], file["score"]["upper_bound"]) == (0, 0.25)
    assert file["identity"]["null_value_count"] == 0
