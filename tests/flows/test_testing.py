"""What users test their own flows with."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prefect.settings import PREFECT_API_URL

from flows.preview import preview
from flows.redrive import redrive
from flows.testing import Row, RunSpec, few_rows
from tasks.errors import ErrorBudgetExceeded, GateFailed, InvalidSpec
from tasks.kinds.clusters import LocalCluster
from tasks.kinds.output_overlap import check_apart
from tasks.kinds.sources import CsvSource, ParquetSource
from tests.kinds.tiny_models import images, png

ROOT = Path(__file__).parents[2]
CODE = Path(__file__).parent / "user_code"
SERVER_AT_HAND = """
import pytest

@pytest.fixture(scope="session")
def prefect_server():
    pass
"""
TEXTS = [{"text": text} for text in ("a b", "c d", "e f", "g h")]


def doubling(**changes: Any) -> dict[str, Any]:
    """A spec for a cluster that is not here, with more of everything than any test needs."""
    return {
        "name": "doubling",
        "source": {"kind": "parquet", "path": "s3://nowhere/rows"},
        "model": {"kind": "python", "class": "predictors:Picky", "init": {"refuses": [3.0]}},
        "sink": {"kind": "jsonl", "path": "s3://nowhere/out", "partition_by": ["day"]},
        "cluster": {"kind": "ray_jobs", "address": "http://nowhere:8265"},
        "resources": {"num_gpus": 8, "min_replicas": 4, "memory_gb": 900, "accelerator_type": "A"},
        "environment": {"working_dir": str(CODE)},
        "errors": {"max_rejected_fraction": 0.5},
        **changes,
    }


def classifying(task: str = "text-classification", **options: Any) -> dict[str, Any]:
    """A spec whose weights are nowhere."""
    return {
        "name": "texts",
        "source": {"kind": "jsonl", "path": "s3://nowhere/texts"},
        "model": {
            "kind": "huggingface",
            "task": task,
            "name_or_path": "nobody/nothing",
            "column": "text",
            "options": options,
        },
        "sink": {"kind": "parquet", "path": "s3://nowhere/out"},
    }


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_a_readers_first_test_runs_as_the_page_prints_it(tmp_path: Path) -> None:
    """In a pytest of its own, beside the server of all tests: these show that one is started.

    What stands in a folder below the root comes before what a module's plugin brings.
    """
    from prefect.settings import PREFECT_API_URL

    page = (ROOT / "docs/testing.md").read_text()
    for name, content in re.findall(r"```\w+\n# (\S+)\n(.*?)```", page, re.DOTALL):
        (tmp_path / name).write_text(content)
    (tmp_path / "conftest.py").write_text(SERVER_AT_HAND)
    environment = {**os.environ, "PREFECT_API_URL": PREFECT_API_URL.value() or ""}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".."]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.prefect
def test_a_spec_for_a_cluster_runs_here_and_shows_its_rows(run_spec: RunSpec) -> None:
    rows: list[Row] = [{"id": n, "x": float(n), "day": f"d{n % 2}"} for n in range(8)]
    done = run_spec(doubling(), rows=rows)
    assert done.report["rows"] == {"read": 8, "written": 7, "rejected": 1, "filtered": 0}
    kept = [row for row in rows if row["id"] != 3]
    assert done.rows == [{**row, "doubled": 2 * row["x"]} for row in kept]
    (aside,) = done.set_aside
    assert (aside["row"], aside["error_type"]) == (3, "ValueError")
    assert "7 rows published" in done.page


@pytest.mark.prefect
def test_runs_of_a_test_build_on_each_other(run_spec: RunSpec) -> None:
    rows = [{"id": n, "x": float(n), "day": "d"} for n in range(4)]
    first = run_spec(doubling(), rows=rows)
    again = run_spec(doubling(), f"source.path={Path(first.spec.source.paths[0])}")
    assert (again.report["published"], again.page) == (False, "")
    more = run_spec(doubling(), rows=[{"id": 9, "x": 9.0, "day": "d"}])
    assert (more.report["rows"]["read"], [row["id"] for row in more.rows]) == (1, [0, 1, 2, 9])
    at = f"source.path={more.spec.source.paths[0]}"
    mended = run_spec(doubling(), at, "model.init.refuses=[]", flow=redrive)
    assert [row["id"] for row in mended.rows] == [0, 1, 2, 9, 3]
    assert mended.set_aside == []


def test_inputs_may_lie_in_the_tests_own_folder(tmp_path: Path) -> None:
    spec = RunSpec(tmp_path, lambda: "").load(doubling(), [f"source.path={tmp_path}"])
    check_apart(spec.source, spec.sink)


@pytest.mark.prefect
def test_budget_and_gates_hold_back_as_ever(run_spec: RunSpec) -> None:
    rows = [{"id": n, "x": float(n), "day": "d"} for n in range(4)]
    with pytest.raises(ErrorBudgetExceeded, match=r"cannot double \[3.0\]"):
        run_spec(doubling(), "errors.max_rejected_fraction=0", rows=rows)
    gate = {"kind": "bounds", "column": "predicted_score", "maximum": 0.1}
    spec = {**classifying(), "gates": [gate]}
    with pytest.raises(GateFailed, match="predicted_score"):
        run_spec(spec, rows=TEXTS, fake=True)
    at = "source.path={}/rows/texts".format
    done = run_spec(spec, at(run_spec.folder), fake=True, accept=True)
    assert (len(done.rows), done.report["resumed_rows"]) == (4, 4)


@pytest.mark.prefect
def test_a_preview_of_a_fake(run_spec: RunSpec) -> None:
    spec = {**classifying("text-generation"), "resources": {"dtype": "float16"}}
    seen = run_spec(spec, rows=TEXTS, fake=True, flow=preview)
    assert seen.report["sample"][0]["generated_text"].startswith("fake-")
    assert (seen.rows, seen.set_aside, seen.page) == ([], [], "")


@pytest.mark.prefect
def test_a_fake_reads_pictures_and_sets_broken_ones_aside(
    run_spec: RunSpec, tmp_path: Path
) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, image in enumerate(images(4)):
        (folder / f"{number}.png").write_bytes(png(image))
    (folder / "broken.png").write_bytes(b"no picture")
    spec = classifying("image-classification") | {"source": {"kind": "images", "path": "nowhere"}}
    spec["model"] = {**spec["model"], "column": "image"}
    given = f"source.path={folder}", "errors.max_rejected_fraction=0.5"
    done = run_spec(spec, *given, fake={"labels": ["cat", "dog", "owl"]})
    assert len(done.rows) == 4
    assert {row["predicted_label"] for row in done.rows} <= {"cat", "dog", "owl"}
    assert [Path(row["source"]).name for row in done.set_aside] == ["broken.png"]
    with pytest.raises(InvalidSpec, match="put a few files in a folder"):
        run_spec(spec, rows=[{"image": b""}], fake=True)


@pytest.mark.prefect
@pytest.mark.ray
def test_a_fake_predicts_the_same_in_a_preview_on_ray(
    run_spec: RunSpec, ray_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = classifying("feature-extraction", normalize=True)
    done = run_spec(spec, rows=TEXTS, fake={"width": 5})
    at = f"source.path={done.spec.source.paths[0]}"
    first = partial(preview, rows=3)
    here = run_spec(spec, at, fake={"width": 5}, flow=first).report
    monkeypatch.setattr("flows.preview.clear_away", lambda trial: None)
    seen = run_spec(
        {**spec, "name": "there"}, at, fake={"width": 5}, ray=True, flow=first, on_cluster=True
    )
    assert seen.spec.cluster == LocalCluster(address=ray_address)
    assert seen.report["measured"] == "on cluster local"
    assert seen.report["rows"]["written"] == 3
    assert seen.report["rows_per_second"]["infer"] > 0
    assert seen.report["sample"] == here["sample"]
    staged = Path(f"{seen.spec.sink.path}.state").rglob("staging/*.parquet")
    there = pa.concat_tables(pq.read_table(file) for file in staged).sort_by("text")
    assert there.equals(done.table[:3]), "to the last digit, and in the same types"
    assert pa.types.is_fixed_size_list(there.schema.field("embedding").type)


@pytest.mark.prefect
def test_a_class_of_ones_own_must_say_what_its_fake_makes(run_spec: RunSpec) -> None:
    rows = [{"id": n, "x": float(n), "day": "d"} for n in range(4)]
    with pytest.raises(InvalidSpec, match="must name the outputs"):
        run_spec(doubling(), rows=rows, fake=True)
    done = run_spec(doubling(), rows=rows, fake={"outputs": ["prediction"], "column": "x"})
    assert all(0 <= row["prediction"] < 1 for row in done.rows)


@pytest.mark.prefect
def test_an_output_of_each_time_stays_one(run_spec: RunSpec) -> None:
    rows = [{"id": n, "x": float(n), "day": "d"} for n in range(4)]
    sink = {"kind": "jsonl", "path": "s3://nowhere/{scheduled:%Y}/{scheduled:%m-%d}"}
    spec = doubling(sink=sink)
    for day in (1, 2):
        time = datetime(2026, 1, day, tzinfo=UTC)
        done = run_spec(spec, rows=rows[2 * day - 2 : 2 * day], scheduled_time=time)
        assert [row["id"] for row in done.rows] == [0, 1, 2][: day + 1], "the last is refused"
        assert done.report["version"] == 1


def test_rows_are_written_in_the_sources_own_format(tmp_path: Path) -> None:
    rows: list[Row] = [{"a": 1}, {"a": 2, "b": "x"}]
    for delimiter in (";", ":"):  # which no writer of ours puts between values
        given = CsvSource(path="nowhere", delimiter=delimiter, quote_char="'")
        csv = few_rows(given, rows, tmp_path / delimiter)
        assert (Path(csv.paths[0]) / "0.csv").read_text() == '"a","b"\n1,\n2,"x"\n'
        assert isinstance(csv, CsvSource)
        assert (csv.delimiter, csv.quote_char) == (",", '"'), "as the file was written"
    given = CsvSource(path="nowhere", column_names=["a", "b"], encoding="utf-16", skip_lines=1)
    bare = few_rows(given, rows, tmp_path / "bare")
    assert isinstance(bare, CsvSource)
    assert bare.column_names is None, "the file has a header"
    assert (bare.encoding, bare.skip_lines) == (None, 0)
    parquet = few_rows(ParquetSource(path="s3://nowhere"), rows, tmp_path / "parquet")
    assert pq.read_table(parquet.paths[0]).to_pylist() == [{"a": 1, "b": None}, rows[1]]


@pytest.mark.parametrize("rows", [{"a": [1, 2]}, ["a"], "a"])
def test_what_is_no_list_of_rows_is_told_as_such(rows: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"^rows: .* must be a list of dicts, one for each row"):
        few_rows(ParquetSource(path="s3://nowhere"), rows, tmp_path / "rows")


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_threads_of_a_test_speak_to_the_same_server() -> None:
    """Else they would start one of their own, or speak to that of the person who tests."""
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(PREFECT_API_URL.value).result()
    assert there
    assert there == PREFECT_API_URL.value()
