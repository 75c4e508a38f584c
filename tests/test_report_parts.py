"""The report's parts: timeline, thumbnails, charts."""

import base64
import io
import math
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from tasks.kinds.gates import comparison
from tasks.kinds.gates.comparison import Comparison, chart_classes
from tasks.kinds.gates.gate import Chart
from tasks.kinds.sources import AudioSource, BinarySource, ImagesSource
from tasks.planning.sharding import num_inputs
from tasks.protocol.storage import FsspecStorage
from tasks.reporting.addresses import source_urls
from tasks.reporting.backfilled import Outcome
from tasks.reporting.confusion import confusion_svg
from tasks.reporting.evidence import PastAttempt
from tasks.reporting.gates import chart_svg
from tasks.reporting.numbers import size_of
from tasks.reporting.objects import Object, objects_of
from tasks.reporting.page import accuracy_part
from tasks.reporting.redaction import block, cell, hide_credentials, scrub, shown_spec
from tasks.reporting.samples import SAMPLE_ROWS, inputs_among, picture, shorten, thumbnail
from tasks.reporting.search_page import plain
from tasks.reporting.stage_tables import replicas_table
from tasks.reporting.timeline import FAILED, timeline_image, timeline_svg
from tasks.spec_file import parse_spec
from tests.reporting import make_inputs


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
    source = ImagesSource(path=str(folder / "in"))
    inputs = {str(inside), str(folder / "in" / "0.parquet")}
    html = thumbnail(source, str(inside), inputs)
    assert html.startswith('<img alt="" src="data:image/jpeg;base64,')
    assert image_in(html).size == (96, 48)
    assert thumbnail(source, str(outside), inputs) == ""
    assert thumbnail(source, str(folder / "in" / "0.parquet"), inputs) == ""


@pytest.mark.parametrize(("redrives", "inputs"), [(False, 4), (True, 3)])
def test_inputs_that_are_cut_count_once(redrives: bool, inputs: int) -> None:
    """In a redrive each file does that several runs have read."""
    shards = pa.table({"path": ["a", "a", "b", "c", "c"], "start": [0, 2, 0, None, None]})
    plan: Any = SimpleNamespace(shards=shards, redrives=redrives)
    assert num_inputs(plan) == inputs


def test_of_millions_of_inputs_those_that_are_shown_are_looked_for(folder: Path) -> None:
    """All of them as Python's texts take gigabytes."""
    source = ImagesSource(path=str(folder))
    inputs = pa.chunked_array([["/in/a.jpg", "/in/b.jpg"], ["/in/c.jpg"]])
    paths: list[object] = ["file:///in/c.jpg", "/in/a.jpg", "/else/b.jpg", None]
    assert inputs_among(source, paths, inputs) == {"/in/a.jpg", "/in/c.jpg"}


def test_only_what_may_be_a_picture_is_fetched(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sounds, or any files, may have a gigabyte each, and a preview shows 64 of them."""
    fetched: list[str] = []

    def read(self: FsspecStorage, path: str) -> bytes:
        fetched.append(path.rpartition("/")[2])
        return encoded(np.zeros((2, 2, 3), np.uint8))

    monkeypatch.setattr(FsspecStorage, "read", read)
    for source in (AudioSource, BinarySource, ImagesSource):
        for name in ("a.wav", "a.zip", "A.JPG"):
            path = f"{folder}/{name}"
            assert bool(thumbnail(source(path=str(folder)), path, {path})) == bool(fetched)
        assert fetched == (["a.wav", "a.zip", "A.JPG"] if source is ImagesSource else ["A.JPG"])
        fetched.clear()


def test_a_page_does_without_pictures_that_cannot_be_reached(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: FsspecStorage, path: str) -> bytes:
        raise ConnectionError("NoCredentialsError")

    monkeypatch.setattr(FsspecStorage, "read", refuse)
    path = str(folder / "a.jpg")
    assert thumbnail(ImagesSource(path=str(folder)), path, {path}) == ""


def image_in(html: str) -> Image.Image:
    """The image that an HTML image holds."""
    return Image.open(io.BytesIO(base64.b64decode(html.split("base64,")[1].removesuffix('">'))))


def encoded(pixels: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def test_objects_are_drawn_where_they_are() -> None:
    """On a white image of 1024 x 512, shown at a quarter of that; one sticks out."""
    row = {
        "boxes": [[400.0, 200.0, 600.0, 400.0], [900.0, 100.0, 2000.0, 3000.0]],
        "labels": ["dog", "<cat>"],
        "scores": [0.9, 0.6],
    }
    white = encoded(np.full((512, 1024, 3), 255, np.uint8))
    shown = image_in(picture(white, objects_of(row)))
    assert shown.size == (256, 128)
    coloured = np.asarray(shown).min(axis=2) < 200
    assert coloured[75, 99:102].any()
    assert coloured[75, 148:152].any()
    assert coloured[98:102, 125].any()
    assert not coloured[60:95, 105:145].any()
    assert not coloured[:, :95].any()
    assert coloured[100, 253:].any()
    assert not (np.asarray(image_in(picture(white, []))).min(axis=2) < 200).any()


@pytest.mark.parametrize("size", [(1, 3_000), (3_000, 1), (1, 1)])
def test_images_of_any_shape_and_labels_of_any_words_are_drawn(size: tuple[int, int]) -> None:
    thin = encoded(np.zeros((*size, 3), np.uint8))
    objects = [Object((0, 0, 1, 1), "two\nlines, \u72d7", 0.5), Object((-9, -9, 1e9, 1e9), "", 1)]
    assert max(image_in(picture(thin, objects)).size) == 256


@pytest.mark.parametrize("corner", [(65, 0), (0, 65), (-9, 0), (0, -9)])
def test_objects_beyond_the_image_are_not_drawn_at_its_edge(corner: tuple[int, int]) -> None:
    white = encoded(np.full((64, 64, 3), 255, np.uint8))
    x, y = corner
    beyond = [Object((x, y, x + 5, y + 5), "dog", 0.9)]
    assert picture(white, beyond) == picture(white, [])


def test_only_what_detection_makes_is_drawn() -> None:
    good: dict[str, list[Any]] = {"boxes": [[1, 2, 3, 4]], "labels": ["a"], "scores": [0.5]}
    assert objects_of(good) == [Object((1.0, 2.0, 3.0, 4.0), "a", 0.5)]
    assert objects_of({**good, "tile_x": 100, "tile_y": 50}) == [
        Object((101.0, 52.0, 103.0, 54.0), "a", 0.5)
    ]
    assert objects_of({"boxes": [], "labels": [], "scores": []}) == []
    for missing in ("boxes", "labels", "scores"):
        assert objects_of({**good, missing: None}) is None
        assert objects_of({**good, missing: "words"}) is None
    for box in (None, 3, "abcd", [1, 2, 3], [1, 2, None, 4], [1, 2, math.nan, 4], [3, 2, 1, 4]):
        assert objects_of({**good, "boxes": [box]}) == []
    many = {"boxes": [[0, 0, 1, 1]] * 30, "labels": ["a"] * 30, "scores": [*range(30)]}
    found = objects_of(many)
    assert found is not None
    assert [each.score for each in found] == [*range(29, 9, -1)]


def test_a_sample_of_objects_stays_below_a_megabyte() -> None:
    """Noise is what JPEG can make least of."""
    random = np.random.default_rng(0)
    noise = encoded(random.integers(0, 256, (900, 900, 3), np.uint8))
    corners = random.uniform(0, 800, (20, 2))
    objects = [Object((x, y, x + 90, y + 90), "label", 0.5) for x, y in corners.tolist()]
    assert SAMPLE_ROWS * len(picture(noise, objects)) < 600_000


def words_of(svg: str) -> list[str]:
    """All that is written in a drawing."""
    return [each.text or "" for each in ElementTree.fromstring(svg).iter() if each.text]


def test_the_confusion_matrix_counts_every_pair() -> None:
    found = Comparison(pairs=Counter({("cat", "cat"): 19, ("cat", "dog"): 8_049}))
    found.pairs.update({("dog", "dog"): 12_000, ("<owl>", None): 1, ("dog", "eel"): 999_999})
    words = words_of(confusion_svg(found))
    assert words[0] == "label \\ predicted"
    assert words[1:5] == ["(none)", "cat", "dog", "eel"]
    assert words[5:] == ["<owl>", "1", "cat", "19", "8.0k", "dog", "12k", "1000k"]


def test_the_confusion_matrix_names_a_class_without_a_name() -> None:
    found = Comparison(pairs=Counter({("", "cat"): 1}))
    assert "(empty)" in words_of(confusion_svg(found))


def test_the_confusion_matrix_puts_rare_classes_together() -> None:
    found = Comparison()
    for number in range(30):
        found.pairs[f"class {number:02}", f"class {number:02}"] = 100 - number
    found.pairs["class 00", "class 29"] = 7
    words = words_of(confusion_svg(found))
    names = [f"class {number:02}" for number in range(20)]
    assert words[1:22] == [*names, "(other)"]
    assert words[22:25] == ["class 00", "100", "7"]
    assert words[-2:] == ["(other)", str(sum(100 - number for number in range(20, 30)))]


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


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("https://x.blob/a?sv=2&sig=S3CRET%3D", "https://x.blob/a?sv=2&sig=***"),
        ("https://x/a?Signature=S3CRET&Expires=1", "https://x/a?Signature=***&Expires=1"),
        (
            "https://b.s3/a?X-Amz-Credential=S3CRET/s3&X-Amz-Expires=60&x-amz-signature=S3CRET",
            "https://b.s3/a?X-Amz-Credential=***&X-Amz-Expires=***&x-amz-signature=***",
        ),
        ("https://x/a?access_token=S3CRET#top", "https://x/a?access_token=***#top"),
        ("postgresql://u:S3CRET@h/d?sslpassword=S3CRET", "postgresql://***@h/d?sslpassword=***"),
        ("https://u:S3@CRET@h/d is gone, write to a@b", "https://***@h/d is gone, write to a@b"),
        ("['https://x/a?TOKEN=S3CRET'] is gone", "['https://x/a?TOKEN=***'] is gone"),
        ("https://x/a?key=S3CRET&api_key=S3CRET", "https://x/a?key=***&api_key=***"),
        ("https://x/a?design=1&author=me", "https://x/a?design=1&author=me"),
        ("What is a signature=?", "What is a signature=?"),
    ],
)
def test_what_opens_a_url_is_not_shown(written: str, shown: str) -> None:
    assert hide_credentials({"urls": [written]}) == {"urls": [shown]}
    assert hide_credentials(shown) == shown


def test_a_presigned_source_is_named_without_its_signature() -> None:
    source = ImagesSource(kind="images", path="https://x/a.png?sv=1&sig=S3CRET")
    assert source_urls(source) == ["https://x/a.png?sv=1&sig=***"]


def test_what_no_drawing_may_hold_is_written_out() -> None:
    """One such character, as texts of PDF files have them, and a browser shows no picture."""
    bins = ["page one\x0cpage two", "\x00", "\x1b[31mred", "\ufffe"]
    chart = Chart(bins, [0.25] * 4, [0.25] * 4, "version 1", "this run")
    svg = ElementTree.fromstring(chart_svg("drift of \x07", chart))
    words = [each.text or "" for each in svg.iter() if each.tag.endswith("text")]
    assert {"drift of \\x07", "page one\\x0cpage two", "\\x00", "\\x1b[31mred"} <= {*words}
    assert "\\x00" in words_of(confusion_svg(Comparison(pairs=Counter({("\x00", "a"): 1}))))
    assert cell("a\x00b\tc\x1b") == "a\\x00b\tc\\x1b"
    assert block("a\x00b\n\nc") == "<pre>a\\x00b\n&nbsp;\nc</pre>"


def test_a_class_may_be_called_other() -> None:
    found = Comparison()
    for number in range(30):
        found.pairs[f"class {number:02}", f"class {number:02}"] = 100 - number
    found.pairs["other", "other"] = 1_000
    found.total = found.pairs.total()
    words = words_of(confusion_svg(found))
    assert (words.count("other"), words.count("(other)")) == (2, 2)
    chart = chart_classes(found)
    assert len({*chart.bins}) == len(chart.bins)


def test_the_accuracy_is_of_all_rows_with_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MAX_PAIRS", 10)
    found = Comparison()
    names = [str(number) for number in range(50)]
    found.add(pa.table({"label": names, "predicted_label": names}))
    assert accuracy_part(found).startswith("100.00 % of 50 rows with a label")


def test_of_bytes_in_a_struct_their_number_is_shown() -> None:
    """As of the Hub's images."""
    image = {"bytes": bytes(2_000), "path": "a.jpg", "sizes": [1, 2, 3, 4, 5]}
    assert shorten(image) == "{bytes: <2000 bytes>, path: a.jpg, sizes: [1, 2, 3, 4, … 5 in all]}"
    row = {"image": image, "tiles": [{"bytes": b"12"}], "by_name": [("a", b"1")]}
    assert plain(row) == {
        "image": {**image, "bytes": "<2000 bytes>"},
        "tiles": [{"bytes": "<2 bytes>"}],
        "by_name": [["a", "<1 bytes>"]],
    }


def test_what_was_resumed_is_no_part_of_what_was_written() -> None:
    """Of a run that was resumed rows of the source count, those that a step filtered too."""
    rows = {"read": 100, "written": 10, "rejected": 0, "filtered": 90}
    told = Outcome("all", "/out", "published", rows=rows, resumed_rows=100).line
    assert told == "published, 10 rows written, 100 rows resumed"


def test_what_is_named_like_a_secret_in_the_codes_arguments_is_not_shown() -> None:
    """It belongs into the environment; and no report or manifest repeats it."""
    init = {"api_key": "sk-1", "auth": [{"password": "hunter2", "user": "me"}], "tokens": 5}
    spec = parse_spec(
        {
            "name": "n",
            "source": {"kind": "csv", "path": "in"},
            "steps": [{"kind": "python", "function": "a:S", "init": {"secret": "s", "n": 1}}],
            "model": {"kind": "python", "class": "a:B", "init": init},
            "sink": {"kind": "jsonl", "path": "out"},
        }
    )
    shown = shown_spec(spec)
    hidden = {"api_key": "***", "auth": [{"password": "***", "user": "me"}], "tokens": 5}
    assert shown["model"]["init"] == hidden
    assert shown["steps"][0]["init"] == {"secret": "***", "n": 1}


def test_what_is_named_like_a_secret_is_not_repeated_by_an_error() -> None:
    """A client's error quotes the key that it was refused with; columns keep their names."""
    init = {"auth": [{"api_key": "sk-12345"}], "label_key": "category"}
    body = {"hf_token": "hf_abcdef"}
    spec = parse_spec(
        {
            "source": {"kind": "csv", "path": "in"},
            "steps": [{"kind": "python", "function": "a:S", "init": init}],
            "model": {"kind": "http", "url": "http://a/v1", "model": "m"}
            | {"options": {"extra_body": body}},
            "sink": {"kind": "jsonl", "path": "out"},
            "environment": {"env_vars": {"DB_PASSWORD": "hunter", "LEVEL": "warning"}},
        }
    )
    said = "401 for sk-12345, hf_abcdef, hunter: warning, no column category"
    assert scrub(said, spec) == "401 for ***, ***, ***: warning, no column category"


def test_options_of_the_models_storage_are_not_shown() -> None:
    """Nor repeated by a report of a failure, which quotes what a client has said of them."""
    options = {"key": "AKIA1234567", "client_kwargs": {"endpoint_url": "http://s3", "token": "t0"}}
    model = {"kind": "onnx", "path": "s3://m/a.onnx", "columns": ["x"]}
    spec = parse_spec(
        {
            "source": {"kind": "parquet", "path": "in"},
            "model": {**model, "storage_options": options},
            "sink": {"kind": "jsonl", "path": "out"},
        }
    )
    hidden = {"key": "***", "client_kwargs": {"endpoint_url": "http://s3", "token": "***"}}
    assert shown_spec(spec)["model"]["storage_options"] == hidden
    assert scrub("no such key: AKIA1234567", spec) == "no such key: ***"


@pytest.mark.parametrize(
    ("model", "where"),
    [
        ({"kind": "vllm", "name_or_path": "a/b", "engine_kwargs": {}}, ["engine_kwargs"]),
        (
            {"kind": "http", "url": "http://a/v1", "model": "m", "options": {"extra_body": {}}},
            ["options", "extra_body"],
        ),
    ],
)
def test_what_is_named_like_a_secret_in_an_engines_arguments_is_not_shown(
    model: dict[str, Any], where: list[str]
) -> None:
    given = model
    for name in where:
        given = given[name]
    given.update(hf_token="hf_1", seed=1)
    spec = parse_spec(
        {
            "source": {"kind": "parquet", "path": "in"},
            "model": model,
            "sink": {"kind": "jsonl", "path": "out"},
        }
    )
    shown = shown_spec(spec)["model"]
    for name in where:
        shown = shown[name]
    assert shown == {"hf_token": "***", "seed": 1}


def test_of_many_replicas_the_rest_is_counted() -> None:
    spent = {"busy": 1.0, "waiting": 2.0, "blocked": 3.0}
    table = replicas_table({"stages": {"infer": {"replicas": [spent] * 40}}})
    assert (table.count("<td>1.0 s</td>"), "<td>and 8 more</td>" in table) == (32, True)


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (65_536, "64.0 KiB"),
        (5 << 20, "5.0 MiB"),
        (3 << 40, "3,072.0 GiB"),
    ],
)
def test_sizes_are_told_in_the_unit_that_a_person_would_use(size: int, told: str) -> None:
    assert size_of(size) == told
