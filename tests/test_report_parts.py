"""The report's parts: timeline, thumbnails, the bottleneck's sentence."""

import base64
import io
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from tasks.kinds.gates.gate import Chart
from tasks.plan import make_plan
from tasks.reporting.evidence import PastAttempt
from tasks.reporting.figures import find_bottleneck
from tasks.reporting.gates import chart_svg
from tasks.reporting.samples import thumbnail
from tasks.reporting.timeline import FAILED, timeline_image, timeline_svg
from tests.reporting import classify_spec, make_inputs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_inputs(tmp_path / "in")
    return tmp_path


def counts(started: float | None, updated: float | None, state: str = "done") -> dict[str, Any]:
    return {"rows": 9, "started": started, "updated": updated, "state": state}


def test_timeline_draws_every_attempt_and_its_guilty_stage() -> None:
    stages = {"read": counts(100, 107), "preprocess": counts(None, None)}
    stages |= {"infer": counts(101, 112), "write": counts(None, None, "waiting")}
    error = {"class": "<Boom>", "stage": "infer"}
    failed = PastAttempt(1, stages, error, True, None)
    killed = PastAttempt(2, stages, None, False, None)
    svg = timeline_svg([failed, killed])
    words = [each.text for each in ElementTree.fromstring(svg).iter() if each.text]
    assert "attempt 1: <Boom>" in words
    assert "attempt 2: left no result" in words
    assert words.count("nothing to do") == words.count("no rows yet") == 2
    assert words[-3:] == ["0 s", "5 s", "10 s"]
    assert svg.count(FAILED) == 1


def test_timeline_is_empty_where_nothing_began() -> None:
    assert timeline_image([PastAttempt(1, {}, None, False, 5.0)]) == ""


def test_thumbnails_show_only_inputs_of_the_run(folder: Path) -> None:
    inside, outside = folder / "in" / "a.jpg", folder / "b.jpg"
    for path in (inside, outside):
        Image.new("CMYK", (400, 200)).save(path)
    planned = make_plan(classify_spec(folder))
    inputs = {str(inside), str(folder / "in" / "0.parquet")}
    html = thumbnail(planned.spec.source, str(inside), inputs)
    assert html.startswith('<img alt="" src="data:image/png;base64,')
    png = base64.b64decode(html.split("base64,")[1].removesuffix('">'))
    assert Image.open(io.BytesIO(png)).size == (96, 48)
    assert thumbnail(planned.spec.source, str(outside), inputs) == ""
    assert thumbnail(planned.spec.source, str(folder / "in" / "0.parquet"), inputs) == ""


SMALL = {"startup": 9.0, "steady": 2.0, "total": 12.0}
LONG = {"startup": 9.0, "steady": 100.0, "total": 110.0}


@pytest.mark.parametrize(
    ("cluster", "seconds", "busiest", "said"),
    [
        ("local", SMALL, "infer", "start-up: 9.0 s before the first row"),
        ("local", SMALL, "infer", "set cluster.kind: inline"),
        ("local", LONG, "infer", "infer: busy 92 % of the steady time; raise resources.max_rep"),
        ("local", LONG, "read", "lower stages.read.num_cpus"),
        ("local", LONG, "write", "raise stages.write.max_workers"),
        ("inline", LONG, "preprocess", "set cluster.kind: local"),
        ("inline", SMALL, "infer", "the job is small"),
    ],
)
def test_bottleneck_names_the_setting(
    folder: Path, cluster: str, seconds: dict[str, float | None], busiest: str, said: str
) -> None:
    spec = classify_spec(folder, cluster={"kind": cluster})
    shares = {stage: 0.1 for stage in ("read", "preprocess", "infer", "write")}
    assert said in find_bottleneck(spec, seconds, {**shares, busiest: 0.92})


def test_charts_show_the_most_frequent_values_and_the_rest_in_one() -> None:
    bins = [f"<{number}> {'long' * 9}" for number in range(40)]
    chart = Chart(bins, [0.6, *[0.4 / 39] * 39], [1.0, *[0.0] * 39], "version 1", "this run")
    svg = ElementTree.fromstring(chart_svg("drift of <b>", chart))
    words = [each.text or "" for each in svg.iter() if each.tag.endswith("text")]
    assert words[0] == "drift of <b>"
    assert words[-2:] == ["version 1", "this run"]
    assert "26 others" in words
    assert words[2:4] == ["60.0 %", "100.0 %"]
    assert max(map(len, words)) <= 22
    bars = [each for each in svg.iter() if each.get("height") == "11" and each.get("width") != "11"]
    assert len(bars) == 2 * 15
    assert max(float(bar.attrib["width"]) for bar in bars) == 400
