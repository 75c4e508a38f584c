"""The last runs beside each other: what the ledger and the manifests say, drawn and in a table."""

import base64
import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tasks.plan import PlannedRun, make_plan
from tasks.publish import publish_planned
from tasks.report import report_run
from tasks.reporting.evidence import look_back
from tasks.reporting.past_runs import SHOWN_RUNS, Figures, PastRun, past_runs
from tasks.reporting.run_report import RunReport
from tasks.reporting.trend import MEASURES, REPLACED, runs_table, trend_part, trend_svg
from tasks.run_options import RunOptions
from tests.reporting import classify_spec, make_inputs, run_attempt, run_spec
from tests.s3_server import S3

PRICED = {"cost": {"per_cpu_hour": 3600}}
SMALL_RUN = 2
"""Files of 50 rows that the first run finds."""


def add_input(folder: Path, number: int) -> None:
    """One more file of 50 rows."""
    more = make_inputs(folder / f"more-{number}", number + 1)
    (more / f"{number}.parquet").rename(folder / "in" / f"{number}.parquet")


def run_with(spec: Any, options: RunOptions) -> tuple[PlannedRun, RunReport]:
    """A whole run that is more than taking what is new, and its report."""
    started = time.time()
    planned = make_plan(spec, options)
    run_attempt(planned)
    return planned, report_run(planned, started, publish_planned(planned), 1)


def page_of(planned: PlannedRun, report: RunReport) -> str:
    return planned.storage.read(str(report.report)).decode()


def runs_on_page(page: str) -> list[list[str]]:
    """Version, what is special and rows, line by line."""
    part = page.partition("## Last runs")[2].partition("## ")[0]
    lines = re.findall(r"<tr><td>(.*?)</td></tr>", part)
    cells = [line.split("</td><td>") for line in lines]
    return [[each[0], each[2], each[3]] for each in cells]


def chart_on_page(page: str) -> Any:
    """The chart of the last runs, parsed."""
    data = page.partition('alt="the last runs compared" src="data:image/svg+xml;base64,')[2]
    return ElementTree.fromstring(base64.b64decode(data.partition('"')[0]))


def words_of(svg: Any) -> list[str]:
    return [each.text or "" for each in svg.iter() if each.tag.endswith("text")]


def test_runs_redrives_and_new_versions_stand_beside_each_other(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in", SMALL_RUN)
    planned, report = run_spec(classify_spec(tmp_path, {"bad": [3, 7]}, **PRICED))
    assert "## Last runs" not in page_of(planned, report), "there is nothing to compare with"

    mended = classify_spec(tmp_path, **PRICED)
    planned, report = run_with(mended, RunOptions(redrive=True))
    assert report.rows["written"] == 2
    assert runs_on_page(page_of(planned, report)) == [["2", "redrive", "2"], ["1", "", "98"]]

    planned, report = run_with(mended, RunOptions(replace_output=True))
    add_input(tmp_path, SMALL_RUN)
    planned, report = run_spec(mended)
    page = page_of(planned, report)
    assert runs_on_page(page) == [
        ["4", "", "50"],
        ["3", "all anew", "100"],
        ["2", "redrive, replaced since", "2"],
        ["1", "replaced since", "98"],
    ]
    svg = chart_on_page(page)
    words = words_of(svg)
    assert {"accuracy", "rows/s, steady", "cost", "1", "2", "3", "4"} <= set(words)
    assert "version; hollow: a redrive, of a few rows; grey: replaced since" in words
    # This run's own values stand beside its dots.
    assert report.accuracy is not None
    assert f"{report.accuracy * 100:.2f} %" in words
    dots = [each for each in svg.iter() if each.tag.endswith("circle")]
    assert len(dots) == len(MEASURES) * 4


@pytest.mark.s3
def test_manifests_are_read_from_an_object_store(tmp_path: Path, s3: S3) -> None:
    """Two at once: of the three runs the last knows its own figures."""
    make_inputs(tmp_path / "in", 1)
    where = {"path": s3.url("trend/out"), "storage_options": s3.storage_options}
    spec = classify_spec(tmp_path, sink={"kind": "parquet", **where})
    reports = []
    for number in range(1, 4):
        planned, report = run_spec(spec)
        reports.append(report)
        add_input(tmp_path, number)
    said, url = report.as_json(), s3.url("trend/out")
    assert said["output"] == url
    assert said["report"] == f"{url}.state/runs/{report.run_id}/report.md"
    assert said["manifest"] == f"{url}.state/manifests/{report.run_id}.json"
    found = past_runs(look_back(planned, 0), said)
    assert [run.figures.accuracy for run in found] == [each.accuracy for each in reports]
    assert None not in [run.figures.accuracy for run in found]
    assert len(runs_on_page(page_of(planned, report))) == 3


def test_rows_a_second_are_of_this_call_alone(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    planned, report = run_spec(classify_spec(tmp_path))
    steady = report.seconds["steady"]
    assert steady
    assert report.rows_per_second == pytest.approx(200 / steady, rel=1e-3)
    # A call that finds all rows there has no speed, whatever calls before it had.
    planned = make_plan(classify_spec(tmp_path), RunOptions(replace_output=True))
    run_attempt(planned)
    planned = make_plan(planned.spec, planned.options)
    time.sleep(0.01)
    again = report_run(planned, time.time(), publish_planned(planned), 0)
    assert again.rows_per_second is None


@pytest.mark.parametrize("content", [None, b"{", b"[]", b'{"accuracy": 7}', b'{"cost": NaN}'])
def test_a_manifest_that_is_missing_or_broken_leaves_a_gap(
    tmp_path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    make_inputs(tmp_path / "in", SMALL_RUN)
    spec = classify_spec(tmp_path, **PRICED)
    _, first = run_spec(spec)
    manifest = Path(str(first.manifest))
    manifest.unlink() if content is None else manifest.write_bytes(content)
    add_input(tmp_path, SMALL_RUN)
    planned, report = run_spec(spec)
    page = page_of(planned, report)
    assert runs_on_page(page) == [["2", "", "50"], ["1", "", "100"]]
    assert page.count("<td>-</td><td>-</td><td>-</td>") == 1
    assert ("cannot be read" in caplog.text) == (content is not None)
    assert "but its report failed" not in caplog.text


def test_no_more_than_the_last_runs_up_to_this_one_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of forty versions, for a report of the thirtieth."""
    make_inputs(tmp_path / "in", 1)
    planned, report = run_spec(classify_spec(tmp_path))
    evidence = look_back(planned, 0)
    entry = evidence.ledger.entries[1]
    ids = {version: f"run-{version}" for version in range(1, 41)}
    evidence.ledger.__dict__["entries"] = {
        version: {**entry, "run_id": run_id, "rows": {"written": version}}
        for version, run_id in ids.items()
    }
    read: list[str] = []
    whole = json.dumps(report.as_json()).encode()

    def read_manifest(self: object, path: str) -> bytes:
        read.append(Path(path).stem)
        return whole

    monkeypatch.setattr(type(planned.storage), "read", read_manifest)
    found = past_runs(evidence, replace(report, version=30).as_json())
    assert [run.version for run in found] == list(range(11, 31))
    assert [run.rows for run in found] == list(range(11, 31))
    assert sorted(read) == sorted(ids[version] for version in range(11, 30))
    assert len(found) == SHOWN_RUNS


def test_panels_are_scaled_to_their_values_and_gaps_stay_gaps() -> None:
    speeds = [100.0, None, 50.0, 100.0]
    runs = [PastRun(n, 0.0, 9, Figures(rows_per_second=each)) for n, each in enumerate(speeds)]
    runs[0] = replace(runs[0], is_replaced=True)
    speed = MEASURES[1]
    svg = ElementTree.fromstring(trend_svg(runs, [speed]))
    dots = [each.attrib for each in svg.iter() if each.tag.endswith("circle")]
    heights = [float(each["cy"]) for each in dots]
    assert heights[0] == heights[2] < heights[1]
    assert dots[0]["fill"] == REPLACED != dots[1]["fill"]
    joined = [each for each in svg.iter() if each.get("stroke") == speed.colour]
    assert len([each for each in joined if each.tag.endswith("line")]) == 1
    assert words_of(svg)[:3] == ["rows/s, steady", "0", "110"]


@pytest.mark.parametrize("value", [0.0, 1.0, 0.5])
def test_values_that_never_change_can_be_drawn(value: float) -> None:
    figures = Figures(accuracy=value, rows_per_second=value, cost=value)
    chart, lines = trend_part([PastRun(n, None, None, figures) for n in (1, 2)])
    assert chart
    assert lines == runs_table([PastRun(n, None, None, figures) for n in (1, 2)])
    for name in ("nan", "inf"):
        assert name not in trend_svg([PastRun(1, None, None, figures)], list(MEASURES))
