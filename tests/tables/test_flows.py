"""Whole flows into a table: the same rows as in Parquet files, and again nothing to do."""

from pathlib import Path
from typing import Any

import pytest

from flows.testing import RunSpec
from tests.tables.bench import TableBench
from tests.tables.conftest import SINKS
from tests.tables.readers import frame_of

CODE = Path(__file__).parents[1] / "flows" / "user_code"


def doubling(kind: str, out: Path) -> dict[str, Any]:
    return {
        "name": f"into-{kind}",
        "source": {"kind": "parquet", "path": "nowhere"},
        "model": {"kind": "python", "class": "predictors:Double"},
        "sink": {"kind": kind, "path": str(out)},
        "environment": {"working_dir": str(CODE)},
    }


@pytest.mark.prefect
def test_a_table_has_the_rows_of_the_parquet_sink(
    run_spec: RunSpec, kind: str, tmp_path: Path
) -> None:
    out, rows = tmp_path / "out", [{"id": n, "x": float(n)} for n in range(6)]
    spec = doubling(kind, out)
    done = run_spec(spec, f"sink.path={out}", rows=rows)
    source = f"source.path={done.spec.source.paths[0]}"
    plain = run_spec({**doubling("parquet", out), "name": "plain"}, source)
    assert done.table.equals(plain.table)
    bench = TableBench(SINKS[kind](path=str(out)))
    assert frame_of(bench).sort("id").to_dicts() == plain.rows
    before = bench.table.look("").version
    again = run_spec(spec, f"sink.path={out}", source)
    assert (again.report["published"], bench.table.look("").version) == (False, before)
