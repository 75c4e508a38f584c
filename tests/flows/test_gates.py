"""Write, audit, publish: what a gate holds back is kept, and published on a person's word."""

import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from flows.batch_inference import batch_inference
from flows.redrive import redrive
from tasks.errors import BatchInferenceError, GateFailed, InvalidSpec
from tasks.ledgers import ledger_of
from tests.flows.test_cli import call
from tests.reporting import classify_spec, make_inputs

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

# 180 of 200 rows are right; ids run from 0 to 199.
PASSING: list[dict[str, Any]] = [
    {"kind": "accuracy", "minimum": 0.9},
    {"kind": "f1", "minimum": 0.89, "average": "weighted"},
    {"kind": "nulls", "column": "text", "max_fraction": 0},
    {"kind": "bounds", "column": "id", "minimum": 0, "maximum": 199},
    {"kind": "drift", "column": "predicted_label", "maximum": 0.1},
    {"kind": "rows", "minimum": 200, "maximum": 200},
]
FAILING: list[dict[str, Any]] = [
    {"kind": "accuracy", "minimum": 0.901},
    {"kind": "bounds", "column": "id", "minimum": 0, "maximum": 198},
    {"kind": "rows", "minimum": 201},
]
# With one of the wrong rows set aside, 180 of 199 are right.
STRICTER = {"kind": "accuracy", "minimum": 0.95}
SINKS: list[dict[str, Any]] = [
    {"kind": "parquet"},
    {"kind": "parquet", "partition_by": ["label"]},
    {"kind": "csv", "partition_by": ["predicted_label"]},
    {"kind": "jsonl"},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_inputs(tmp_path / "in")
    return tmp_path


@pytest.mark.parametrize("sink", SINKS, ids=["parquet", "by label", "csv by prediction", "jsonl"])
def test_rows_that_pass_are_published(folder: Path, sink: dict[str, Any]) -> None:
    spec = classify_spec(folder, gates=PASSING, sink={**sink, "path": str(folder / "out")})
    report = batch_inference(spec, accept=True)
    assert (report["published"], report["accepted"]) == (True, None)
    assert [each["passed"] for each in report["gates"]] == [True] * 6
    values = [each["value"] for each in report["gates"]]
    assert values == [0.9, pytest.approx(0.9, abs=0.01), 0, 0, None, 200]
    entry = ledger_of(spec).look().entries[1]
    assert entry["gates"] == report["gates"]
    assert entry["distributions"]["predicted_label"]["counts"] == [120, 80, 0]
    assert "accepted" not in entry
    manifest = json.loads(Path(report["manifest"]).read_text())
    assert manifest["gates"] == report["gates"]
    page = Path(report["report"]).read_text()
    assert "<td>rows written</td><td>200</td><td>200 to 200</td>" in page
    assert 'alt="accuracy of predicted_label against label" src="data:image/svg+xml' in page


def test_a_day_is_compared_with_the_output_of_another_day(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    drift: dict[str, Any] = {"kind": "drift", "column": "predicted_label", "maximum": 0.1}
    first = classify_spec(folder, gates=[drift], sink={"kind": "jsonl", "path": f"{folder}/1"})
    batch_inference(first)
    assert "gates.0: drift of predicted_label (PSI) has nothing to compare with yet" in caplog.text
    caplog.clear()
    against = {**drift, "baseline": str(folder / "1")}

    def day(name: str, inputs: str = "in", **gate: Any) -> Any:
        sink = {"kind": "jsonl", "path": str(folder / name)}
        source = {"kind": "parquet", "path": str(folder / inputs)}
        return classify_spec(folder, gates=[{**against, **gate}], sink=sink, source=source)

    (judged,) = batch_inference(day("2"))["gates"]
    assert (judged["value"], judged["passed"]) == (0, True)
    assert judged["note"] == f"against version 1 of {folder / '1'}, 200 rows"
    assert "nothing to compare with" not in caplog.text
    (folder / "others").mkdir()
    pq.write_table(pa.table({"id": range(1, 80, 2)}), folder / "others/odd.parquet")
    with pytest.raises(GateFailed, match=r"drift of predicted_label .*against version 1 of"):
        batch_inference(day("3", "others"))
    for column, problem in (
        ("label", "no published run with a drift gate on label"),
        ("id", "gate on id"),
    ):
        with pytest.raises(InvalidSpec, match=rf"gates.0.baseline: '{folder}/1' .*{problem}"):
            batch_inference(day("4", column=column))
    with pytest.raises(InvalidSpec, match=r"gates.0.baseline: .*/none' has no published run"):
        batch_inference(day("4", baseline=str(folder / "none")))


def test_the_output_that_all_days_are_compared_with_is_made_by_the_spec_they_have(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    drift = {"kind": "drift", "column": "predicted_label", "maximum": 0.1}
    gates = [{**drift, "baseline": f"{folder}/day-1/"}]
    sink = {"kind": "jsonl", "path": f"{folder}/day-{{scheduled:%-d}}"}
    spec = classify_spec(folder, gates=gates, sink=sink)
    day = partial(datetime, 2026, 1, tzinfo=UTC)
    with pytest.raises(InvalidSpec, match=r"gates.0.baseline: .*has no published run"):
        batch_inference(spec, scheduled_time=day(2))
    (first,) = batch_inference(spec, scheduled_time=day(1))["gates"]
    assert (first["value"], first["passed"]) == (None, True)
    (said,) = [each for each in caplog.messages if "nothing to compare with" in each]
    assert "baseline" not in said
    (second,) = batch_inference(spec, scheduled_time=day(2))["gates"]
    assert (second["value"], second["note"]) == (
        0,
        f"against version 1 of {folder}/day-1/, 200 rows",
    )


def test_what_a_gate_holds_back_is_kept_and_published_on_a_word(folder: Path) -> None:
    spec = classify_spec(folder, {"bad": [10]}, gates=[*PASSING[:1], STRICTER, *FAILING[1:]])
    with pytest.raises(GateFailed) as held:
        batch_inference(spec)
    message = str(held.value)
    for part in (
        "3 of 4 gates failed; nothing was published",
        "passed  accuracy of predicted_label against label: 0.904523, at least 0.9 is required",
        "FAILED  rows written: 199, at least 201 is required",
        "with --accept to publish",
        "--restart",
    ):
        assert part in message, part
    assert not (folder / "out").exists()
    assert ledger_of(spec).look().version == 0
    (page,) = folder.glob("out.state/runs/*/report.md")
    assert "## Gates" in page.read_text()
    assert "<b>failed</b></td><td>rows written</td><td>199</td>" in page.read_text()
    assert "## Sample predictions" in page.read_text()

    with pytest.raises(GateFailed, match="3 of 4 gates failed"):
        batch_inference(spec)
    assert len(list(folder.glob("out.state/runs/*/attempts/*"))) == 1, "predicted once"

    report = batch_inference(spec, accept=True)
    assert (report["version"], report["attempts"], report["resumed_rows"]) == (1, 0, 199)
    accepted = report["accepted"]
    assert [each["gate"] for each in accepted["failed"]] == [
        "accuracy of predicted_label against label",
        "share of id outside 0 to 198",
        "rows written",
    ]
    assert accepted["failed"][1]["value"] == pytest.approx(1 / 199, abs=1e-6)
    assert accepted["by"].startswith(f"{psutil.Process().username()}@")
    assert accepted["flow_run_id"] == str(report["flow_run_id"])
    manifest = json.loads(Path(report["manifest"]).read_text())
    assert manifest["accepted"] == ledger_of(spec).look().entries[1]["accepted"] == accepted
    assert "Published because" in Path(report["report"]).read_text()
    assert len(list(folder.glob("out.state/runs/*/attempts/*"))) == 1
    assert not batch_inference(spec)["published"], "there is nothing left to do"


def published_ids(folder: Path) -> list[int]:
    return sorted(pq.read_table(folder / "out")["id"].to_pylist())


def test_what_is_accepted_is_what_was_judged(folder: Path) -> None:
    spec = classify_spec(folder, gates=[{"kind": "bounds", "column": "id", "maximum": 198}])
    with pytest.raises(GateFailed):
        batch_inference(spec)
    pq.write_table(pa.table({"id": range(600, 650)}), folder / "in" / "late.parquet")
    pq.write_table(pa.table({"id": range(500, 510)}), folder / "in" / "0.parquet")
    (folder / "in" / "1.parquet").unlink()
    report = batch_inference(spec, accept=True)
    assert (report["attempts"], report["resumed_rows"]) == (0, 200)
    assert published_ids(folder) == list(range(200))
    later = batch_inference(spec, accept=True)
    assert later["rows"]["written"] == 60
    assert published_ids(folder) == [*range(50, 200), *range(500, 510), *range(600, 650)]


def test_a_run_is_done_first_that_has_grown_since_it_was_judged(folder: Path) -> None:
    once = {"crash_at": 200, "marker": str(folder / "has_crashed")}
    spec = classify_spec(folder, once, gates=[{"kind": "rows", "maximum": 100}])
    with pytest.raises(GateFailed):
        batch_inference(spec)
    pq.write_table(pa.table({"id": range(200, 250)}), folder / "in" / "late.parquet")
    with pytest.raises(BatchInferenceError, match="the model's server is gone"):
        batch_inference(spec)
    pq.write_table(pa.table({"id": range(200, 240)}), folder / "in" / "late.parquet")
    report = batch_inference(spec, accept=True)
    assert (report["rows"]["written"], report["resumed_rows"]) == (240, 200)


def test_another_gate_is_no_other_run(folder: Path) -> None:
    with pytest.raises(GateFailed):
        batch_inference(classify_spec(folder, gates=FAILING))
    report = batch_inference(classify_spec(folder, gates=PASSING))
    assert (report["attempts"], report["resumed_rows"], report["accepted"]) == (0, 200, None)


def test_drift_is_measured_from_run_to_run(folder: Path) -> None:
    gates = [{"kind": "drift", "column": name, "maximum": 0.5} for name in ("id", "label")]
    spec = classify_spec(folder, gates=gates)
    first = batch_inference(spec)
    assert {each["note"] for each in first["gates"]} == {"nothing to compare with yet"}
    make_inputs(folder / "more", 8)
    (folder / "more" / "7.parquet").rename(folder / "in" / "7.parquet")
    with pytest.raises(GateFailed, match=r"FAILED  drift of id .*against version 1"):
        batch_inference(spec)
    accepted = batch_inference(spec, accept=True)
    assert [each["passed"] for each in accepted["gates"]] == [False, True]
    # Whose word it was has made these ids the measure.
    (folder / "more" / "6.parquet").rename(folder / "in" / "6.parquet")
    (folder / "more" / "5.parquet").rename(folder / "in" / "5.parquet")
    with pytest.raises(GateFailed, match=r"FAILED  drift of id .*against version 2"):
        batch_inference(spec)


@pytest.mark.parametrize("again", [False, True], ids=["first run", "later run"])
def test_a_column_that_is_not_there_is_said_early(folder: Path, again: bool) -> None:
    if again:
        batch_inference(classify_spec(folder))
        make_inputs(folder / "more", 5)
        (folder / "more" / "4.parquet").rename(folder / "in" / "4.parquet")
    spec = classify_spec(folder, gates=[{"kind": "nulls", "column": "txt", "max_fraction": 0}])
    with pytest.raises(InvalidSpec, match=r"^gates\.0\.column: 'txt' is not a column.*'text'"):
        batch_inference(spec)
    if not again:
        assert not list(folder.glob("out.state/runs/*/records/*")), "said on the first rows"
    assert batch_inference(classify_spec(folder))["published"]


def test_a_run_without_rows_has_nothing_to_judge(folder: Path) -> None:
    steps = [{"kind": "filter", "expression": "id < 0"}]
    gates = [*PASSING[:5], {"kind": "rows", "minimum": 1}]
    with pytest.raises(GateFailed, match=r"1 of 6 gates failed[\s\S]*FAILED  rows written: 0"):
        batch_inference(classify_spec(folder, steps=steps, gates=gates))
    report = batch_inference(classify_spec(folder, steps=steps, gates=gates[:5]))
    assert {each["note"] for each in report["gates"]} == {"no rows to judge"}


def test_no_rows_replace_what_is_published_on_a_word_only(folder: Path) -> None:
    batch_inference(classify_spec(folder))
    steps = [{"kind": "filter", "expression": "id < 0"}]
    nothing = classify_spec(folder, steps=steps, gates=PASSING[:1])
    with pytest.raises(GateFailed, match="no rows to judge, but they would replace the publ"):
        batch_inference(nothing, replace_output=True)
    assert ledger_of(nothing).look().version == 1
    assert batch_inference(nothing, replace_output=True, accept=True)["version"] == 2


def test_what_a_redrive_brings_in_is_not_judged(folder: Path) -> None:
    gates = [{"kind": "rows", "minimum": 199}]
    batch_inference(classify_spec(folder, {"bad": [10]}, gates=gates))
    report = redrive(classify_spec(folder, gates=gates))
    assert (report["rows"]["written"], report["gates"], report["accepted"]) == (1, [], None)
    assert report["manifest"], "its report is written"


def test_exit_code_3_and_accept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = classify_spec(folder, gates=FAILING).model_dump(mode="json", by_alias=True)
    file = folder / "spec.yaml"
    file.write_text(yaml.safe_dump(spec))
    assert call(monkeypatch, "run", str(file)) == 3
    assert "GateFailed: 3 of 3 gates failed" in capsys.readouterr().err
    assert call(monkeypatch, "run", str(file), "--accept", "--json") == 0
    told = capsys.readouterr()
    assert json.loads(told.out.splitlines()[-1])["accepted"]["failed"][2]["value"] == 200
    assert "3 of 3 failed, published because" in told.err
