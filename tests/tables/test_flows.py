"""Whole flows into a table: the same rows as in Parquet files, and again nothing to do."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from flows.backfill import backfill
from flows.printed_report import print_report
from flows.redrive import redrive
from flows.testing import RunSpec
from flows.verify import verify
from tasks.errors import InvalidSpec, KeysRepeated
from tasks.kinds.sinks.jsonl import JsonlSink
from tasks.ledgers import ledger_of
from tasks.plan import make_plan
from tasks.previewing import trial_of
from tasks.publish import publish_planned
from tasks.run_options import RunOptions
from tasks.spec_file import complete_spec
from tests.flows.conftest import spec_of
from tests.flows.test_object_stores import predict
from tests.tables.bench import TableBench
from tests.tables.conftest import SINKS
from tests.tables.foreigners import iceberg
from tests.tables.readers import frame_of

if TYPE_CHECKING:
    from tasks.kinds.sinks.sink import Sink

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


@pytest.mark.prefect
@pytest.mark.parametrize("kind", ["lance"])
def test_runs_and_redrives_replace_rows_by_key(
    run_spec: RunSpec, kind: str, tmp_path: Path
) -> None:
    out, more = tmp_path / "out", tmp_path / "more.parquet"
    spec = doubling(kind, out) | {"errors": {"max_rejected_fraction": 0.5}}
    spec["model"] = {"kind": "python", "class": "predictors:Picky", "init": {"refuses": [3.0]}}
    spec["sink"] |= {"mode": "upsert", "key": ["id"]}
    place, rows = f"sink.path={out}", [{"id": n, "x": float(n)} for n in range(4)]
    first = run_spec(spec, place, rows=rows)
    pq.write_table(pa.table({"id": [2, 3], "x": [20.0, 30.0]}), more)
    run_spec(spec, place, f"source.path={more}")
    columns = ["id", "doubled"]
    bench = TableBench(SINKS[kind](path=str(out)))
    assert sorted(frame_of(bench)[columns].rows()) == [(0, 0), (1, 2), (2, 40), (3, 60)]
    source = f"source.path={first.spec.source.paths[0]}"
    redriven = run_spec(spec, place, source, "model.init.refuses=[]", flow=redrive)
    found = [(row["id"], row["doubled"]) for row in redriven.rows]
    assert sorted(found) == [(0, 0), (1, 2), (2, 40), (3, 6)]
    assert sorted(frame_of(bench)[columns].rows()) == sorted(found)


@pytest.mark.prefect
@pytest.mark.parametrize("kind", ["delta"])
def test_chunks_of_a_text_leave_with_it(run_spec: RunSpec, kind: str, tmp_path: Path) -> None:
    out, more = tmp_path / "out", tmp_path / "more.parquet"
    spec = doubling(kind, out) | {"steps": [{"kind": "chunk_text", "size": 16}]}
    spec["sink"] |= {"mode": "upsert", "key": ["doc"]}
    long, place = " ".join(["some words"] * 9), f"sink.path={out}"
    rows = [{"doc": n, "x": float(n), "text": long} for n in range(2)]
    first = run_spec(spec, place, rows=rows)
    chunks = sorted((row["doc"], row["chunk"]) for row in first.rows)
    assert len(chunks) > 12
    pq.write_table(pa.table({"doc": [1], "x": [5.0], "text": ["shorter now"]}), more)
    second = run_spec(spec, place, f"source.path={more}")
    found = sorted((row["doc"], row["chunk"], row["doubled"]) for row in second.rows)
    assert found == [*((*each, 0.0) for each in chunks if each[0] == 0), (1, 0, 10.0)]
    verified = verify(second.spec)["rows"]
    assert (verified["compared"], verified["differ"]) == (3, 0)


@pytest.mark.prefect
@pytest.mark.parametrize("kind", ["delta"])
def test_a_run_with_a_key_twice_is_published_as_it_is_once_told_which_counts(
    run_spec: RunSpec, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, given = tmp_path / "out", tmp_path / "given.parquet"
    pq.write_table(pa.table({"id": [1, 2, 1], "x": [1.0, 2.0, 3.0]}), given)
    spec = doubling(kind, out)
    spec["sink"] |= {"mode": "upsert", "key": ["id"]}
    place = f"sink.path={out}", f"source.path={given}"
    with pytest.raises(KeysRepeated, match=r"set sink\.newest_by"):
        run_spec(spec, *place)
    done = run_spec(spec, *place, "sink.newest_by=x")
    assert done.report["resumed_rows"] == 3
    rows = {"read": 3, "written": 2, "rejected": 0, "filtered": 0, "superseded": 1}
    manifest = json.loads(Path(done.report["manifest"]).read_text())
    (entry,) = ledger_of(done.spec).look().entries.values()
    assert done.report["rows"] == manifest["rows"] == entry["rows"] == rows
    assert "# into-delta: 2 rows published" in done.page
    assert "1 (by newer rows with the same keys)" in done.page
    print_report(Console(), done.report)
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in told[1:3]] == [["written", "2"], ["superseded", "1,"]]
    bench = TableBench(SINKS[kind](path=str(out)))
    assert sorted(frame_of(bench)[["id", "doubled"]].rows()) == [(1, 6), (2, 4)]


@pytest.mark.prefect
@pytest.mark.parametrize("kind", ["iceberg"])
def test_a_backfill_is_one_transaction(run_spec: RunSpec, kind: str, tmp_path: Path) -> None:
    folder, bench = tmp_path / "in", TableBench(SINKS[kind](path=str(tmp_path / "out")))
    spec, place = doubling(kind, folder), (f"sink.path={bench.sink.path}", f"source.path={folder}")
    folder.mkdir()
    for number in range(2):
        pq.write_table(pa.table({"id": [number], "x": [1.0]}), folder / f"{number}.parquet")
        run_spec(spec, *place)
    with iceberg(bench) as table:
        table.append(pa.table({"id": [9], "x": [1.0], "doubled": [0.0]}))
    old = bench.table.look("").version
    spec["model"]["init"] = {"bad": -1.0}  # another model
    done = run_spec(spec, *place, flow=backfill)
    assert [each["told"] for each in done.report["periods"]] == ["replaced, 2 rows written"]
    found = [frame_of(bench, each)[["id", "doubled"]].sort("id").rows() for each in (old, None)]
    assert found == [[(0, 2.0), (1, 2.0), (9, 0.0)]] * 2
    assert len(done.rows) == 2
    with iceberg(bench) as table:
        assert [each.summary["run-id"] for each in table.snapshots()[3:]] == [
            done.report["periods"][0]["run_id"]
        ]


def test_a_test_or_a_preview_touches_no_catalog(run_spec: RunSpec, tmp_path: Path) -> None:
    spec = doubling("iceberg", tmp_path)
    catalog = {"type": "rest", "uri": "http://127.0.0.1:1"}
    spec["sink"] |= {"catalog": catalog, "table": "production.pets"}
    loaded = run_spec.load(spec, [])
    assert loaded.sink.model_dump(include={"catalog", "table"}) == {"catalog": {}, "table": None}
    real = complete_spec(spec, [], Path.cwd())
    assert trial_of(real, 5, "p").sink.kind == "parquet"


@pytest.mark.prefect
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_times_that_python_does_not_know_are_published(
    run_spec: RunSpec, kind: str, tmp_path: Path
) -> None:
    out, source = tmp_path / "out", tmp_path / "rows.parquet"
    for_ever = [300_000_000_000_000_000, 0]  # in the year 11476, as a database's infinity is read
    until = pa.array(for_ever, pa.timestamp("us", "UTC"))
    day = pa.array([4_000_000, 0], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"id": [1, 2], "x": [1.0, 2.0], "until": until, "day": day}), source)
    run_spec(doubling(kind, out), f"sink.path={out}", f"source.path={source}")
    (file,) = out.rglob("part-*.parquet")
    rows = pq.read_table(file)
    assert rows["until"].cast(pa.int64()).to_pylist() == for_ever
    state = TableBench(SINKS[kind](path=str(out))).table.look("")
    assert len(state.files) == 1


@pytest.mark.prefect
@pytest.mark.parametrize("kind", ["delta"])
def test_a_redrive_takes_back_no_key_that_a_later_run_has_replaced(
    run_spec: RunSpec, kind: str, tmp_path: Path
) -> None:
    """Of a file whose length only reading tells, of which the first row was set aside."""
    out = tmp_path / "out"
    spec = doubling(kind, out) | {"errors": {"max_rejected_fraction": 0.5}}
    spec["source"] = {"kind": "csv", "path": "nowhere"}
    spec["model"] = {"kind": "python", "class": "predictors:Picky", "init": {"refuses": [0.5]}}
    spec["sink"] |= {"mode": "upsert", "key": ["id"]}
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_text("id,x\n0,0.5\n1,1.5\n2,2.5\n")
    second.write_text("id,x\n1,10.5\n2,20.5\n")
    place = f"sink.path={out}"
    run_spec(spec, place, f"source.path={first}")
    run_spec(spec, place, f"source.path={second}")
    run_spec(spec, place, f"source.path={first}", "model.init.refuses=[]", flow=redrive)
    found = frame_of(TableBench(SINKS[kind](path=str(out))))[["id", "doubled"]].rows()
    assert sorted(found) == [(0, 1.0), (1, 21.0), (2, 41.0)]


@pytest.mark.parametrize("kind", SINKS)
def test_an_emptied_table_takes_more_files_than_it_had(kind: str, tmp_path: Path) -> None:
    source = {"kind": "parquet", "path": str(tmp_path / "*.parquet"), "on_empty": "succeed"}
    sink = {"kind": kind, "path": str(tmp_path / "out")}
    stages = {"read": {"rows_per_batch": 1}}
    spec = spec_of(tmp_path / "in", source=source, sink=sink, stages=stages)
    for size in (1, 0, 3):
        file = tmp_path / f"{size}.parquet"
        if size:
            pq.write_table(pa.table({"id": range(size), "x": [1.0] * size}), file)
        planned = make_plan(spec, RunOptions(replace_output=not size))
        if size:
            predict(planned)
        publish_planned(planned)
        file.unlink(missing_ok=True)
        assert sorted(frame_of(TableBench(SINKS[kind](**sink)))["id"]) == [*range(size)]


@pytest.mark.prefect
def test_what_has_been_files_does_not_become_a_table_nor_the_other_way_round(
    run_spec: RunSpec, kind: str, tmp_path: Path
) -> None:
    """Not by a new version either: readers of the one would find rows of the other."""
    anew = RunOptions(replace_output=True)
    sinks: dict[str, type[Sink]] = {**SINKS, "jsonl": JsonlSink}
    for before, after in (("jsonl", kind), (kind, "jsonl")):
        out = tmp_path / before
        spec = doubling(before, out)
        done = run_spec(spec, f"sink.path={out}", rows=[{"id": 0, "x": 1.0}])
        there = sorted(out.rglob("*"))
        other = done.spec.model_copy(update={"sink": sinks[after](path=str(out))})
        with pytest.raises(InvalidSpec, match=r"set sink\.kind back") as refused:
            make_plan(other, anew)
        assert str(refused.value).startswith(f"sink.path: '{out}' has been published as ")
        assert ("files until now" if before == "jsonl" else f"the {kind} table") in str(
            refused.value
        )
        assert sorted(out.rglob("*")) == there
        assert make_plan(done.spec, anew).replaces
