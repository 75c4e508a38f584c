"""Gates where something else happens at the same time, or nothing of Prefect is there."""

import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import GateFailed, RowsMissing
from tasks.plan import make_plan
from tasks.publish import publish_planned
from tasks.publishing.output_rows import OutputFile, OutputReader
from tasks.report import report_failure
from tasks.run import left_to_do
from tasks.run_options import RunOptions
from tests.reporting import classify_spec, make_inputs, run_attempt, run_spec

GATES = [{"kind": "accuracy", "minimum": 0.9}]
READ = OutputReader.read


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_inputs(tmp_path / "in")
    return tmp_path


def test_who_publishes_while_another_judges_has_published_for_both(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, other = (make_plan(classify_spec(folder, gates=GATES)) for _ in range(2))
    run_attempt(planned)
    published: list[int] = []

    def read_late(reader: OutputReader, file: OutputFile) -> object:
        monkeypatch.setattr(OutputReader, "read", READ)
        published.append(publish_planned(other))
        return READ(reader, file)

    monkeypatch.setattr("tasks.publishing.output_rows.READERS", 1)
    monkeypatch.setattr(OutputReader, "read", read_late)
    assert publish_planned(planned) == 1
    assert published == [1]
    assert list(planned.ledger.look().entries) == [1]


def test_a_staged_file_that_goes_while_it_is_judged_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = make_plan(classify_spec(folder, gates=GATES))
    run_attempt(planned)

    def read_too_late(reader: OutputReader, file: OutputFile) -> object:
        planned.storage.delete(file.path)
        return READ(reader, file)

    with monkeypatch.context() as going:
        going.setattr(OutputReader, "read", read_too_late)
        with pytest.raises(FileNotFoundError):
            publish_planned(planned)
    with pytest.raises(RowsMissing, match="run again to predict what is missing"):
        publish_planned(planned)
    assert planned.ledger.look().version == 0


def test_gates_look_at_the_rows_that_are_published(folder: Path, tmp_path: Path) -> None:
    """Half of an upsert's rows are superseded by newer ones; their time was spent all the same."""
    times = pa.table({"id": [*range(100)] * 2, "at": [1] * 100 + [2] * 100})
    pq.write_table(times, tmp_path / "times.parquet")
    sink = {"kind": "delta", "path": str(tmp_path / "table"), "mode": "upsert", "key": ["id"]}
    spec = classify_spec(
        folder,
        source={"kind": "parquet", "path": str(tmp_path / "times.parquet")},
        sink={**sink, "newest_by": "at"},
        gates=[{"kind": "rows", "maximum": 100}, {"kind": "bounds", "column": "at", "minimum": 2}],
    )
    _, report = run_spec(spec)
    assert report.gates[0]["value"] == 100
    assert all(each["passed"] for each in report.gates)
    assert (report.rows["written"], report.rows["superseded"]) == (100, 100)
    steady = report.seconds["steady"]
    assert steady
    assert report.rows_per_second == pytest.approx(200 / steady, rel=0.1)


def test_a_night_is_not_measured_by_a_late_file_of_a_few_rows(folder: Path) -> None:
    gates = [{"kind": "drift", "column": "predicted_label", "maximum": 0.2}]
    spec = classify_spec(folder, gates=gates)

    def night(name: str, ids: range, *, accept: bool = False) -> dict[str, Any]:
        pq.write_table(pa.table({"id": ids}), folder / "in" / f"{name}.parquet")
        return run_spec(spec, RunOptions(accept=accept))[1].gates[0]

    run_spec(spec)  # 200 rows
    late = night("late", range(1_001, 1_040, 2), accept=True)
    assert (late["passed"], late["note"]) == (False, "against version 1, 200 rows")
    first = "against version 1, 200 rows; later ones have fewer than half of this run's"
    against = [{**gates[0], "baseline": spec.sink.path}]
    sink = {"kind": "parquet", "path": f"{folder}/other"}
    _, other = run_spec(classify_spec(folder, gates=against, sink=sink))
    assert f"against version 1 of {spec.sink.path}, 200 rows;" in other.gates[0]["note"]
    full = night("full", range(2_000, 2_200))
    assert (full["value"], full["note"]) == (0, first)
    with pytest.raises(GateFailed, match=r"FAILED  drift of .*against version 3, 200 rows\)"):
        night("drifted", range(3_001, 3_400, 2))
    assert night("drifted", range(3_001, 3_400, 2), accept=True)["passed"] is False
    alike = night("like it", range(4_001, 4_400, 2))
    assert (alike["value"], alike["note"]) == (0, "against version 4, 200 rows")


def test_an_upsert_is_measured_by_the_rows_that_it_publishes(folder: Path) -> None:
    """Of 200 rows 100 are superseded: the 60 of the last run are more than half of the others."""
    source = folder / "times"
    source.mkdir()
    sink = {"kind": "delta", "path": str(folder / "table"), "mode": "upsert", "key": ["id"]}
    spec = classify_spec(
        folder,
        source={"kind": "parquet", "path": str(source)},
        sink={**sink, "newest_by": "at"},
        gates=[{"kind": "drift", "column": "predicted_label", "maximum": 0.2}],
    )
    for name, ids in enumerate(([*range(200)], [*range(60)], [*range(100)] * 2)):
        rows = pa.table({"id": ids, "at": range(len(ids))})
        pq.write_table(rows, source / f"{name}.parquet")
        _, report = run_spec(spec)
    assert report.gates[0]["note"] == "against version 2, 60 rows"


def test_a_word_given_outside_of_prefect_is_the_users(folder: Path) -> None:
    gates = [{"kind": "rows", "minimum": 300}]
    spec = classify_spec(folder, gates=gates)
    planned = make_plan(spec)
    run_attempt(planned)
    with pytest.raises(GateFailed, match=r"rows written: 200, at least 300 is required"):
        publish_planned(planned)
    before = time.time()
    planned = make_plan(spec, RunOptions(accept=True))
    publish_planned(planned)
    accepted = planned.ledger.look().entries[1]["accepted"]
    assert accepted["by"].startswith(f"{psutil.Process().username()}@")
    assert before <= accepted["at"] <= time.time()
    (failed,) = accepted["failed"]
    assert (failed["gate"], failed["value"], failed["limit"]) == (
        "rows written",
        200,
        "at least 300",
    )


def test_of_a_run_that_is_held_back_the_page_says_what_the_next_one_does(folder: Path) -> None:
    """It publishes: rows that were set aside, few enough, are tried by a redrive alone."""
    planned = make_plan(classify_spec(folder, {"bad": [7, 9]}, gates=GATES[:1]))
    run_attempt(planned)
    with pytest.raises(GateFailed) as held:
        publish_planned(planned)
    page = planned.storage.read(report_failure(planned, time.time(), held.value) or "").decode()
    assert "<td>set aside, not tried again</td><td>2 rows</td>" in page
    assert "<td>0 rows; files or parts of files: 0</td>" in page
    assert not left_to_do(planned, tried=False)
