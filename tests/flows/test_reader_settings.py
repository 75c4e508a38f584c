"""Rows that are read in two ways: never mixed, or told where published ones stay as they are."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows.backfill import backfill
from flows.batch_inference import batch_inference
from tasks.errors import InvalidSpec
from tasks.kinds.sources.csv import CsvSource
from tasks.kinds.sources.source import Source
from tasks.kinds.sources.video import VideoSource
from tasks.ledgers import ledger_of
from tasks.plan import make_plan
from tasks.planning.reader_settings import changes
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of
from tests.reporting import run_attempt

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


def rated(folder: Path, **source: Any) -> BatchInferenceSpec:
    """Reads id and x from CSV files."""
    source = {"kind": "csv", "path": str(folder / "in"), **source}
    return spec_of(folder, source=source, sink={"kind": "parquet", "path": str(folder / "out")})


def lines_of(folder: Path, **source: Any) -> BatchInferenceSpec:
    """A row for each line of text; its id is how long it is."""
    return spec_of(
        folder,
        source={"kind": "text", "path": str(folder / "in"), **source},
        steps=[{"kind": "python", "function": "reading_steps:lengths"}],
        sink={"kind": "parquet", "path": str(folder / "out")},
    )


def put(folder: Path, name: str, content: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text(content)


def told(report: dict[str, Any]) -> list[str]:
    return [each["told"] for each in report["periods"]]


def test_another_choice_of_rows_is_refused_until_all_are_read_by_it(tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "a\n\nccc\n")
    batch_inference(lines_of(tmp_path))
    put(tmp_path, "b.txt", "\nbb\n")
    other = lines_of(tmp_path, skip_blank=True)
    with pytest.raises(
        InvalidSpec,
        match=r"source\.skip_blank was its default in version 1 \(run \w+\), now True: ",
    ):
        batch_inference(other)
    assert told(backfill(other)) == ["replaced, 3 rows written"]
    assert told(backfill(other)) == ["up to date, 2 inputs skipped"]
    assert [row["id"] for row in published(other)] == [1, 2, 3]
    with pytest.raises(InvalidSpec, match=r"now its default: .* backfill SPEC"):
        batch_inference(lines_of(tmp_path))


def test_who_is_sent_to_a_backfill_is_told_to_give_up_the_unfinished_run(tmp_path: Path) -> None:
    """Else that was the next error."""
    put(tmp_path, "a.txt", "a\n\nccc\n")
    batch_inference(lines_of(tmp_path))
    put(tmp_path, "b.txt", "\nbb\n")
    run_attempt(make_plan(lines_of(tmp_path)))
    other = lines_of(tmp_path, skip_blank=True)
    told = r"backfill SPEC --restart` \(or --replace-output --restart\) gives up the unfinished run"
    with pytest.raises(InvalidSpec, match=told):
        make_plan(other)
    make_plan(other, RunOptions(replace_output=True, restart=True))


def test_what_is_said_of_files_to_come_leaves_the_published_as_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, "a.csv", "id,x\n1,1.5\n")
    batch_inference(rated(tmp_path, types={"x": "float64"}))
    put(tmp_path, "b.csv", "id,x\n2,none\n3,2.5\n")
    mended = rated(tmp_path, types={"x": "float64"}, null_values=["none"])
    assert batch_inference(mended)["inputs_skipped"] == 1
    note = "source.null_values was its default in version 1"
    assert caplog.text.count(note) == 1
    assert (
        "published rows stay as they were read; --replace-output reads all of them again"
        in caplog.text
    )
    assert [row["id"] for row in published(mended)] == [1, 2, 3]
    assert told(backfill(mended)) == ["up to date, 2 inputs skipped"]
    assert caplog.text.count(note) == 1, "told once, and not every night"


def test_a_change_is_told_where_there_is_nothing_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, "a.csv", "id,x\n1,1.5\n")
    batch_inference(rated(tmp_path))
    other = rated(tmp_path, null_values=["none"])
    assert not batch_inference(other)["published"]
    assert told(backfill(other)) == ["up to date, 1 input skipped"]
    assert caplog.text.count("source.null_values was its default") == 2
    # Other inputs, or others of the same, are no other way to read them.
    caplog.clear()
    batch_inference(rated(tmp_path, exclude=["*.tmp"], shuffle_seed=1))
    assert "source." not in caplog.text


def test_what_earlier_releases_have_published_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "a.txt", "a\n")
    with monkeypatch.context() as earlier:
        earlier.setattr("tasks.publish.reading_of", lambda source: None)
        batch_inference(lines_of(tmp_path))
    put(tmp_path, "b.txt", "bb\n")
    other = lines_of(tmp_path, skip_blank=True)
    assert batch_inference(other)["inputs_skipped"] == 1
    seen = ledger_of(other).look()
    assert changes(seen, other.source) == []
    assert [each.field for each in changes(seen, lines_of(tmp_path).source)] == ["skip_blank"]
    assert changes(seen, CsvSource(path="x")) == [], "of another kind nothing is known"


def test_a_value_of_nothing_is_no_default() -> None:
    entry = {"run_id": "r", "reading": {"kind": "video", "every_seconds": None}}
    seen: Any = SimpleNamespace(base=0, entries={1: entry})
    (change,) = changes(seen, VideoSource(path="x"))
    assert str(change) == "source.every_seconds was None in version 1 (run r), now its default"
    assert change.makes_other_rows


@pytest.mark.parametrize(
    ("source", "makes_other_rows"),
    [
        (CsvSource(path="x", encoding="latin-1"), False),
        (CsvSource(path="x", skip_lines=1), False),
        (VideoSource(path="x", encoding="png"), True),
    ],
)
def test_an_encoding_says_what_files_of_text_are_like_and_what_a_video_becomes(
    source: Source, makes_other_rows: bool
) -> None:
    entry = {"run_id": "r", "reading": {"kind": source.model_dump()["kind"]}}
    seen: Any = SimpleNamespace(base=0, entries={1: entry})
    (change,) = changes(seen, source)
    assert change.makes_other_rows == makes_other_rows
