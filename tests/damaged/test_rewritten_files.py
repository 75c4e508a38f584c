"""Published files that others have rewritten, of which a run would have to keep some rows."""

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import InvalidSpec
from tasks.plan import make_plan
from tasks.protocol import records
from tasks.publish import publish_planned
from tasks.published import published_rows, rows_set_aside
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tests.reporting import classify_spec, make_inputs, run_attempt, run_spec


@pytest.fixture
def spec(tmp_path: Path) -> BatchInferenceSpec:
    """Published: 200 rows in one file, but for two of different inputs, set aside in another."""
    make_inputs(tmp_path / "in")
    spec: BatchInferenceSpec = classify_spec(
        tmp_path, {"bad": [3, 60]}, stages={"read": {"rows_per_batch": 200}}
    )
    run_spec(spec)
    return spec


def change_first_input(spec: BatchInferenceSpec) -> None:
    """One row more."""
    changed = min(Path(str(spec.source.path)).iterdir())
    rows = pq.read_table(changed)
    pq.write_table(pa.concat_tables([rows, rows.slice(0, 1)]), changed)


def rewrite(file: Path) -> bytes:
    """Put its rows into another order; what was there before."""
    content = file.read_bytes()
    rows = pq.read_table(file)
    pq.write_table(rows.sort_by([(rows.column_names[0], "descending")]), file)
    return content


def test_they_lose_no_rows_of_other_inputs(spec: BatchInferenceSpec) -> None:
    """Which rows leave is told by their places in the file: said before any is predicted."""
    (file,) = Path(spec.sink.path).glob("*.parquet")
    before = rewrite(file)
    assert make_plan(spec).nothing_to_do
    change_first_input(spec)
    told = rf"sink.path: '{file}' has .* it was rewritten by .* with --replace-output, which"
    with pytest.raises(InvalidSpec, match=told):
        make_plan(spec, save=False)
    theirs = file.read_bytes()
    file.write_bytes(before)
    planned = make_plan(spec)
    run_attempt(planned)
    file.write_bytes(theirs)
    for call in (partial(publish_planned, planned), partial(make_plan, spec)):
        with pytest.raises(InvalidSpec, match=told.replace(", which", " --restart, which")):
            call()
    run_spec(spec, RunOptions(replace_output=True, restart=True))
    assert len(published_rows(spec)) == 199


def test_one_of_the_same_size_is_told_by_its_content(tmp_path: Path) -> None:
    """As where somebody has sorted it: rows of other inputs would leave, and old ones stay."""
    make_inputs(tmp_path / "in")
    sink = {"kind": "jsonl", "path": str(tmp_path / "out")}
    spec = classify_spec(tmp_path, sink=sink, stages={"read": {"rows_per_batch": 200}})
    run_spec(spec)
    (file,) = (tmp_path / "out").glob("*.jsonl")
    content = file.read_bytes()
    file.write_bytes(b"".join(reversed(content.splitlines(keepends=True))))
    assert len(file.read_bytes()) == len(content)
    change_first_input(spec)
    planned = make_plan(spec)
    run_attempt(planned)
    told = rf"sink.path: '{file}' does not have the content .* --replace-output --restart, which"
    with pytest.raises(InvalidSpec, match=told):
        publish_planned(planned)
    file.write_bytes(content)
    assert publish_planned(planned) == 2
    assert len(published_rows(spec)) == 201


def test_one_that_is_gone_is_asked_for(spec: BatchInferenceSpec) -> None:
    (file,) = Path(spec.sink.path).glob("*.parquet")
    before = file.read_bytes()
    file.unlink()
    make_inputs(Path(str(spec.source.path)) / "new", files=1)
    assert len(make_plan(spec, save=False).plan.shards) == 1, "no row of it leaves"
    change_first_input(spec)
    with pytest.raises(InvalidSpec, match=rf"'{file}' is gone. Restore it from a copy, or run"):
        make_plan(spec)
    file.write_bytes(before)
    _, report = run_spec(spec)
    assert (report.version, len(published_rows(spec))) == (2, 248)


def test_rows_set_aside_are_asked_for_too(spec: BatchInferenceSpec) -> None:
    (file,) = Path(f"{spec.sink.path}.state/quarantine").glob("*.parquet")
    before = rewrite(file) + b" "
    file.write_bytes(before)
    change_first_input(spec)
    with pytest.raises(InvalidSpec, match=rf"'{file}' has .* or run with --replace-output, which"):
        make_plan(spec)
    with pytest.raises(InvalidSpec, match=rf"'{file}' has .* or run with --replace-output, which"):
        make_plan(spec, RunOptions(redrive=True))  # the changed input's row stays set aside
    _, report = run_spec(spec, RunOptions(replace_output=True))
    assert (report.version, len(rows_set_aside(spec))) == (2, 2)


def test_one_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an earlier release has published it, which noted its size alone."""
    monkeypatch.setattr(records, "crc32", lambda data: None)
    make_inputs(tmp_path / "in")
    spec = classify_spec(tmp_path, stages={"read": {"rows_per_batch": 200}})
    run_spec(spec)
    (file,) = Path(spec.sink.path).glob("*.parquet")
    file.write_bytes(b"\xff" * len(file.read_bytes()))
    change_first_input(spec)
    planned = make_plan(spec)
    run_attempt(planned)
    with pytest.raises(
        InvalidSpec, match=rf"'{file}' is not as it was written .* --restart, which"
    ):
        publish_planned(planned)
