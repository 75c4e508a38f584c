"""The harness itself: rounds, resuming, outputs that differ, and what figures allow to say."""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tasks.kinds.models.model import Placement
from tasks.protocol.records import Record
from tasks.spec_file import parse_spec
from tests.benchmarks import process_tree, side_by_side
from tests.benchmarks.clock import read_clocks
from tests.benchmarks.contenders import Contender, Job, contender, workload_named
from tests.benchmarks.fairness import ahead
from tests.benchmarks.floor.tabular import predict_files
from tests.benchmarks.ratios import Ratio
from tests.benchmarks.script import Arguments
from tests.benchmarks.side_by_side import Options, measure
from tests.benchmarks.workloads import tabular
from tests.benchmarks.workloads.workload import Size

NEAR = (0.99, 1.0, 1.0, 1.0, 1.01, 1.0, 1.0, 1.0, 1.0, 1.0)
COPY = """
import json, pathlib, shutil
shutil.copytree({inputs!r}, {output!r})
print(json.dumps({{"rows": 2, "first": 1.0, "last": 3.0}}))
"""


@pytest.fixture
def workload(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """One whose results lie in its inputs."""

    def make_inputs(folder: Path, size: int, seed: int) -> None:
        pq.write_table(pa.table({"id": range(size), "made": [seed] * size}), folder / "0.parquet")

    def compare(ours: pa.Table, theirs: pa.Table) -> None:
        assert ours.equals(theirs), "results differ"

    found = SimpleNamespace(
        KEY="id",
        SIZES={"tiny": 2},
        make_weights=lambda folder, seed: None,
        make_inputs=make_inputs,
        compare=compare,
    )
    monkeypatch.setattr(side_by_side, "workload_named", lambda name: found)
    return found


def copying(name: str, code: str = COPY) -> Contender:
    def command(job: Job) -> list[str]:
        text = code.format(inputs=str(job.inputs), output=str(job.output))
        return [sys.executable, "-S", "-c", text]

    return Contender(name, command)


@pytest.mark.usefixtures("workload")
def test_rounds_alternate_and_are_not_run_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def order_of(count: int) -> list[str]:
        done = measure("copies", both, count, "tiny", tmp_path, tmp_path / "rounds.jsonl")
        assert [each.seed for each in done] == [*range(count)]
        assert {run.steady for each in done for run in each.runs.values()} == {2.0}
        lines = capsys.readouterr().out.splitlines()
        return [line.partition(": Run")[0] for line in lines if ": Run" in line]

    both = [copying("one"), copying("other")]
    assert order_of(1) == ["copies tiny 0 one", "copies tiny 0 other"]
    assert order_of(2) == ["copies tiny 1 other", "copies tiny 1 one"]
    assert order_of(2) == []


@pytest.mark.parametrize(
    ("size", "asked", "cluster", "title"),
    [
        ("small", None, "inline", ", small"),
        ("small", "local", "local", ", small, local"),
        ("whole", None, "local", ""),
        ("whole", "inline", "inline", ", inline"),
    ],
)
def test_small_runs_do_without_ray_and_others_where_it_is_asked(
    size: Size, asked: str | None, cluster: str, title: str, tmp_path: Path
) -> None:
    options = Options(size, cluster=asked)
    assert options.title == title
    job = Job(workload_named("tabular"), tmp_path, tmp_path, tmp_path / "out")
    *_, file, _ = contender(options.ours, "tabular").command(job)
    assert parse_spec(yaml.safe_load(Path(file).read_text())).cluster.kind == cluster


def test_outputs_that_differ_end_the_row(workload: SimpleNamespace, tmp_path: Path) -> None:
    both = [copying("one"), copying("other")]

    def refuse(ours: pa.Table, theirs: pa.Table) -> None:
        raise AssertionError("results differ")

    workload.compare = refuse
    with pytest.raises(AssertionError, match="results differ"):
        measure("copies", both, 1, "tiny", tmp_path, tmp_path / "rounds.jsonl")
    assert not (tmp_path / "rounds.jsonl").exists()


def test_rows_that_are_missing_end_the_row() -> None:
    ours = pa.table({"id": [0, 1]})
    with pytest.raises(AssertionError, match="wrote 1 rows, and not 2"):
        side_by_side.assert_same_keys(ours, ours.slice(1), "id", "other")
    with pytest.raises(AssertionError, match="wrote other rows"):
        side_by_side.assert_same_keys(ours, pa.table({"id": [0, 0]}), "id", "other")


def test_the_floor_says_what_our_model_says(tmp_path: Path) -> None:
    for name in ("inputs", "output"):
        (tmp_path / name).mkdir()
    given = Arguments(tmp_path / "inputs", tmp_path, tmp_path / "output")
    tabular.make_weights(tmp_path, 0)
    tabular.make_inputs(given.inputs, 500, 0)
    predict_files([*given.inputs.iterdir()], given)
    assert read_clocks(given.clocks)["rows"] == 500
    theirs = pq.read_table(given.output)

    model = parse_spec(tabular.spec(given.inputs, tmp_path, given.output)).model
    rows = pq.read_table(given.inputs).select([tabular.KEY, *tabular.FEATURES])
    made = model.predictor(Placement("cpu", 1))(rows.add_column(0, "__row", rows[tabular.KEY]))
    tabular.compare(made, theirs)
    with pytest.raises(AssertionError):
        tabular.compare(made, theirs.take([*range(1, 500), 0]))


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [
        ([((10.0, 12.0), {"preprocess": 3.0}), ((12.0, 14.0), {"preprocess": 3.0})], 3.0),
        ([((10.0, 12.0), {"preprocess": 1.0}), ((10.5, 12.0), {"preprocess": 3.0})], 2.5),
        ([((10.0, 12.0), {}), (None, {"preprocess": 99.0})], 0.0),
    ],
)
def test_our_clock_runs_from_the_first_row_that_is_prepared(
    spans: Sequence[tuple[tuple[float, float] | None, dict[str, float]]], seconds: float
) -> None:
    records = [Record("a", "b", "c", seconds=spent, inferred_at=at) for at, spent in spans]
    assert ahead(records) == seconds


def test_cpu_of_children_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_tree, "SAMPLE_SECONDS", 0.05)
    burn = (
        "import time; u = time.process_time() + 1\nwhile time.process_time() < u: pass\n"
        "time.sleep(1)"  # until it was looked at for the last time
    )
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {burn!r}])"
    used = process_tree.run(
        [sys.executable, "-S", "-c", f"{code}; print('{{}}')"], {}, tmp_path / "log"
    )
    assert 0.9 < used.cpu < 1.9
    assert used.seconds >= 2


def test_what_a_script_tells_is_heard_where_ray_has_the_last_word(tmp_path: Path) -> None:
    code = """print('{"rows": 1}'); print('{"rows": 2}'); print('(raylet) good night')"""
    used = process_tree.run([sys.executable, "-S", "-c", code], {}, tmp_path / "log")
    assert used.told == {"rows": 2}


def test_a_command_that_fails_shows_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"exit 3\nno such thing"):
        process_tree.run(
            [sys.executable, "-c", "import sys; print('no such thing', file=sys.stderr); exit(3)"],
            {},
            tmp_path / "log",
        )


@pytest.mark.parametrize(
    ("values", "at_least", "verdict"),
    [
        ((9.0, 8.5, 9.5), 8, "reached"),
        ((7.0, 6.5, 7.5), 8, "missed"),
        ((1.0, 1.0, 1.0), 0.98, "inconclusive: 10 pairs are needed this close"),
        (NEAR, 0.98, "reached"),
        (NEAR, 1.02, "missed"),
        ((0.9, 1.1) * 5, 0.98, "inconclusive"),
    ],
)
def test_verdict(values: Sequence[float], at_least: float, verdict: str) -> None:
    assert Ratio(tuple(values)).verdict(at_least) == verdict
