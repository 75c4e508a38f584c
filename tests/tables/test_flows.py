"""Whole flows into a table: the same rows as in Parquet files, and again nothing to do."""

from pathlib import Path
from typing import Any

import pytest

from flows.redrive import redrive
from flows.testing import RunSpec
from tasks.previewing import trial_of
from tasks.spec_file import complete_spec
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


@pytest.mark.prefect
@pytest.mark.parametrize("kind", ["delta"])
def test_a_redrive_is_one_transaction(run_spec: RunSpec, kind: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    spec = doubling(kind, out) | {"errors": {"max_rejected_fraction": 0.5}}
    spec["model"] = {"kind": "python", "class": "predictors:Picky", "init": {"refuses": [3.0]}}
    done = run_spec(
        spec, f"sink.path={out}", rows=[{"id": n, "x": float(n), "day": "d"} for n in range(4)]
    )
    bench = TableBench(SINKS[kind](path=str(out)))
    before = bench.table.look("").version
    assert frame_of(bench)["id"].sort().to_list() == [0, 1, 2]
    place = f"sink.path={out}", f"source.path={done.spec.source.paths[0]}"
    run_spec(spec, *place, "model.init.refuses=[]", flow=redrive)
    assert frame_of(bench)["id"].sort().to_list() == [0, 1, 2, 3]
    assert bench.table.look("").version == before + 1  # type: ignore[operator]


def test_a_test_or_a_preview_touches_no_catalog(run_spec: RunSpec, tmp_path: Path) -> None:
    spec = doubling("iceberg", tmp_path)
    catalog = {"type": "rest", "uri": "http://127.0.0.1:1"}
    spec["sink"] |= {"catalog": catalog, "table": "production.pets"}
    loaded = run_spec.load(spec, [])
    assert loaded.sink.model_dump(include={"catalog", "table"}) == {"catalog": {}, "table": None}
    real = complete_spec(spec, [], Path.cwd())
    assert trial_of(real, 5, "p").sink.kind == "parquet"
