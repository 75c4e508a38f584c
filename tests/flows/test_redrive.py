"""Rows that were set aside, run again: what works moves into the output, the rest stays."""

import gzip
import io
import json
import os
import shutil
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.batch_inference import batch_inference
from flows.redrive import redrive
from flows.verify import verify
from tasks.errors import InvalidSpec, OutputHeld, StageFailed
from tasks.kinds.sources.compressed import DamagedFile, Gzip
from tasks.ledgers import ledger_of
from tasks.plan import PlannedRun, make_plan
from tasks.planning.unfinished import UnfinishedRuns
from tasks.protocol.redrive_shards import Line, PastRun, lines_of
from tasks.protocol.rewriting import read_published
from tasks.publish import publish_planned
from tasks.run import left_to_do, next_attempt
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]
BAD = [5.0, 305.0, 777.0]


def picky(numbers: Path, *refuses: float, **changes: Any) -> BatchInferenceSpec:
    init = {"refuses": list(refuses), **changes.pop("init", {})}
    model = {"kind": "python", "class": "predictors:Picky", "init": init}
    return spec_of(numbers, **{"model": model, "errors": {"max_rejected_fraction": 0.5}, **changes})


def aside(spec: BatchInferenceSpec) -> list[dict[str, Any]]:
    """The quarantine's rows, by source and row."""
    folder = Path(f"{spec.sink.path}.state/quarantine")
    rows = [row for file in folder.glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    return sorted(rows, key=lambda row: (row["source"], row["row"]))


def ids(spec: BatchInferenceSpec) -> list[int]:
    rows = published(spec)
    assert [row["doubled"] for row in rows] == [2 * row["id"] for row in rows]
    return [row["id"] for row in rows]


def all_but(*missing: float) -> list[int]:
    return [each for each in range(1000) if each not in missing]


def carried_out(planned: PlannedRun) -> PlannedRun:
    """A run up to where it would publish."""
    attempt = next_attempt(planned, left_to_do(planned, tried=False))
    attempt.ensure_started()
    while attempt.look().result is None:
        attempt.stopped.wait(0.05)
    return planned


def test_what_works_now_moves_and_the_rest_stays_with_its_history(numbers: Path) -> None:
    first = batch_inference(picky(numbers, *BAD))
    assert ids(picky(numbers)) == all_but(*BAD)
    still = picky(numbers, 777.0)
    report = redrive(still)
    assert report["rows"] == {"read": 3, "written": 2, "rejected": 1, "filtered": 0}
    assert (report["version"], ids(still)) == (2, all_but(777))
    (row,) = aside(still)
    (before,) = json.loads(row["history"])
    assert (row["row"], row["run_id"]) == (77, report["run_id"])
    assert (before["run_id"], before["error_type"]) == (first["run_id"], "ValueError")
    redrive(still)
    assert [each["run_id"] for each in json.loads(aside(still)[0]["history"])] == [
        first["run_id"],
        report["run_id"],
    ]
    nights = [redrive(still)["run_id"] for _ in range(3)]
    said = [each["run_id"] for each in json.loads(aside(still)[0]["history"])]
    assert said == [first["run_id"], nights[-2]], "the first and the last of one reason"
    redrive(picky(numbers))
    assert (ids(still), aside(still)) == (all_but(), [])
    assert redrive(picky(numbers))["published"] is False


def test_the_output_goes_on_as_it_was_made(numbers: Path) -> None:
    spec = picky(numbers, *BAD)
    batch_inference(spec)
    redrive(picky(numbers))
    assert batch_inference(spec)["published"] is False, "its model made the output"
    table = pa.table({"id": [1000, 1001], "x": [1000.0, 1001.0]})
    pq.write_table(table, numbers / "10.parquet")
    assert batch_inference(spec)["rows"]["written"] == 2
    assert ids(spec) == list(range(1002))


def test_who_redrives_with_another_model_is_told_that_runs_go_on_with_the_former(
    numbers: Path,
) -> None:
    spec = picky(numbers, *BAD)
    batch_inference(spec)
    (note,) = make_plan(picky(numbers), RunOptions(redrive=True), save=False).notes
    assert "another config than version 1; what differs: model.init.refuses" in note
    assert "refused until `batch-inference backfill SPEC`" in note
    assert make_plan(spec, RunOptions(redrive=True), save=False).notes == []
    redrive(picky(numbers))
    assert make_plan(picky(numbers), RunOptions(redrive=True), save=False).notes == []


def test_an_output_that_was_moved_with_its_state_is_redriven(numbers: Path, tmp_path: Path) -> None:
    spec = picky(numbers, *BAD)
    batch_inference(spec)
    moved = tmp_path / "elsewhere" / "out"
    moved.parent.mkdir()
    for suffix in ("", ".state"):
        shutil.move(f"{spec.sink.path}{suffix}", f"{moved}{suffix}")
    there = picky(numbers, 777.0, sink={"kind": "parquet", "path": str(moved)})
    assert redrive(there)["rows"]["written"] == 2
    assert ids(there) == all_but(777)
    assert [row["row"] for row in aside(there)] == [77]


def test_rows_of_several_runs_come_back_in_one_commit(numbers: Path) -> None:
    spec = picky(numbers, 5.0, 1001.0)
    batch_inference(spec)
    table = pa.table({"id": [1000, 1001], "x": [1000.0, 1001.0]})
    pq.write_table(table, numbers / "10.parquet")
    batch_inference(spec)
    report = redrive(picky(numbers))
    assert (report["version"], report["rows"]["written"]) == (3, 2)
    assert ids(spec) == list(range(1002))


def test_what_runs_have_left_behind_is_looked_at_side_by_side(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each its spec and its plan are read: of a year of nights one by one that is a minute."""
    spec = picky(numbers, 5.0, 1001.0)
    batch_inference(spec)
    pq.write_table(pa.table({"id": [1000, 1001], "x": [1000.0, 1001.0]}), numbers / "10.parquet")
    batch_inference(spec)
    both = Barrier(2, timeout=60)

    def read(run: PastRun) -> list[Line]:
        both.wait()
        return lines_of(run)

    monkeypatch.setattr("tasks.planning.redrive.lines_of", read)
    planned = make_plan(picky(numbers), RunOptions(redrive=True))
    assert len(planned.plan.shards) == 2


def test_what_runs_have_read_as_other_types_comes_back_together(tmp_path: Path) -> None:
    """The first run found whole numbers in its file, the second fractions and another column."""
    folder = tmp_path / "lines"
    folder.mkdir()
    source = {"kind": "jsonl", "path": str(folder)}
    sink = {"kind": "parquet", "path": str(tmp_path / "out"), "keep_columns": ["id"]}
    (folder / "a.jsonl").write_text('{"id": 1, "x": 1}\n{"id": 5, "x": 5}\n')
    batch_inference(picky(folder, 5, 7.5, source=source, sink=sink))
    (folder / "b.jsonl").write_text('{"id": 7, "x": 7.5, "y": 1}\n{"id": 8, "x": 8.5, "y": 2}\n')
    batch_inference(picky(folder, 5, 7.5, source=source, sink=sink))
    report = redrive(picky(folder, source=source, sink=sink))
    assert report["rows"] == {"read": 2, "written": 2, "rejected": 0, "filtered": 0}
    found = {row["id"]: row["doubled"] for row in published(picky(folder, sink=sink))}
    assert found == {1: 2.0, 5: 10.0, 7: 15.0, 8: 17.0}


def test_a_row_whose_type_was_wrong_comes_back_once_it_is_named(tmp_path: Path) -> None:
    """The first thousand rows had whole numbers only."""
    folder = tmp_path / "lines"
    folder.mkdir()
    lines = [f'{{"id": {row}, "x": {row}}}' for row in range(1000)] + ['{"id": 1000, "x": 0.5}']
    (folder / "a.jsonl").write_text("\n".join(lines))
    source = {"kind": "jsonl", "path": str(folder)}
    sink = {"kind": "parquet", "path": str(tmp_path / "out"), "keep_columns": ["id"]}
    batch_inference(picky(folder, source=source, sink=sink))
    report = redrive(picky(folder, source={**source, "types": {"x": "float64"}}, sink=sink))
    assert report["rows"] == {"read": 1, "written": 1, "rejected": 0, "filtered": 0}
    rows = published(picky(folder, sink=sink))
    assert sorted(row["doubled"] for row in rows) == sorted([1.0, *range(0, 2000, 2)])


def test_rows_with_wrong_checksums_come_back_once_these_are_not_compared(tmp_path: Path) -> None:
    """And what was published before is verified so."""
    folder, written = tmp_path / "in", io.BytesIO()
    folder.mkdir()
    rows = pa.table({"id": range(9), "x": [0.5] * 9})
    pq.write_table(rows, written, compression="none", write_page_checksum=True)
    content = bytearray(written.getvalue())
    content[content.index(bytes(rows["x"].chunk(0).buffers()[1])[:8])] ^= 1
    (folder / "a.parquet").write_bytes(content)
    (folder / "b.parquet").write_bytes(written.getvalue())
    source: dict[str, Any] = {"kind": "parquet", "path": str(folder)}
    spec = spec_of(folder, source=source, errors={"max_rejected_fraction": 1.0})
    batch_inference(spec)
    assert len(aside(spec)) == 9
    assert "source.verify_checksums: false" in aside(spec)[0]["error_message"]
    source["verify_checksums"] = False
    spec = spec_of(folder, source=source, errors={"max_rejected_fraction": 1.0})
    assert redrive(spec)["rows"]["written"] == 9
    assert verify(spec)["rows"] == {"published": 18, "compared": 9, "differ": 0}


def test_an_input_that_changes_afterwards_takes_its_redriven_rows_along(numbers: Path) -> None:
    spec = picky(numbers, *BAD)
    batch_inference(spec)
    redrive(picky(numbers, 777.0))
    pq.write_table(pa.table({"id": [300, 305], "x": [300.0, 306.0]}), numbers / "3.parquet")
    batch_inference(picky(numbers, *BAD))
    rows = published(spec)
    assert [row["id"] for row in rows if 300 <= row["id"] < 400] == [300, 305]
    assert len(rows) == 901
    assert [row["row"] for row in aside(spec)] == [77]


def test_an_input_that_has_changed_is_left_to_the_next_run(numbers: Path) -> None:
    spec = picky(numbers, *BAD)
    batch_inference(spec)
    pq.write_table(pa.table({"id": [300], "x": [300.0]}), numbers / "3.parquet")
    (numbers / "7.parquet").unlink()
    report = redrive(picky(numbers))
    assert (report["rows"]["written"], report["inputs_skipped"]) == (1, 2)
    assert ids(spec) == all_but(305, 777)


def test_a_redrive_that_dies_is_resumed(numbers: Path) -> None:
    batch_inference(picky(numbers, *BAD))
    # One shard a batch, so that the first of them is settled when the second breaks.
    breaks = picky(numbers, init={"dies": 305.0}, stages={"read": {"rows_per_batch": 1}})
    with pytest.raises(StageFailed, match="the device is gone"):
        redrive(breaks)
    assert ids(breaks) == all_but(*BAD), "nothing is published by half"
    report = redrive(picky(numbers), restart=True)
    assert (report["rows"]["written"], ids(breaks)) == (3, all_but())


def test_a_redrive_that_dies_keeps_no_night_waiting(numbers: Path) -> None:
    spec = picky(numbers, *BAD)
    batch_inference(spec)
    with pytest.raises(StageFailed, match="the device is gone"):
        redrive(picky(numbers, init={"dies": 305.0}, stages={"read": {"rows_per_batch": 1}}))
    (begun,) = UnfinishedRuns(spec, ledger_of(spec).look()).begun()
    assert not batch_inference(spec)["published"]
    assert [*UnfinishedRuns(spec, ledger_of(spec).look()).begun()] == [begun], "as nothing is new"
    new = pa.table({"id": [1000], "x": [1000.0]})
    pq.write_table(new, numbers / "new.parquet")
    assert batch_inference(spec)["rows"]["written"] == 1
    assert not UnfinishedRuns(spec, ledger_of(spec).look()).begun()
    report = redrive(picky(numbers))
    assert (report["rows"]["written"], ids(spec)) == (3, [*range(1001)])


def test_of_two_redrives_one_brings_the_rows_in(numbers: Path) -> None:
    batch_inference(picky(numbers, *BAD))
    one = carried_out(make_plan(picky(numbers), RunOptions(redrive=True)))
    other = picky(numbers, 777.0)
    two = carried_out(make_plan(other, RunOptions(redrive=True, restart=True)))
    publish_planned(two)
    one.storage.delete(f"{one.run.path}/abandoned")  # as where nobody has given it up
    with pytest.raises(OutputHeld, match=r"settled 3 rows that run \w+ had set aside"):
        publish_planned(one)
    assert ids(other) == all_but(777)


def test_who_publishes_a_redrive_second_finds_it_published(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a flow run that was thought dead and the one that was started in its place."""
    batch_inference(picky(numbers, *BAD))
    planned = carried_out(make_plan(picky(numbers, 777.0), RunOptions(redrive=True)))
    place = "tasks.publishing.history.read_published"

    def read_late(*given: Any) -> bytes:
        monkeypatch.setattr(place, read_published)
        assert publish_planned(planned) == 2
        return read_published(*given)

    monkeypatch.setattr(place, read_late)
    assert publish_planned(planned) == 2
    assert ids(planned.spec) == all_but(777)


def test_a_file_nobody_could_read_comes_back_whole(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for name in "ab":
        (folder / f"{name}.csv").write_text("id,x\n1,1.0\n2,2.0\n")
    bad = folder / "b.csv"
    stat = bad.stat()
    bad.write_bytes(b"\xff" * stat.st_size)
    os.utime(bad, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    spec = picky(folder, source={"kind": "csv", "path": str(folder)})
    batch_inference(spec)
    assert len(aside(spec)) == 1
    bad.write_text("id,x\n1,1.0\n2,2.0\n")
    os.utime(bad, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    report = redrive(spec)
    assert (report["rows"]["written"], ids(spec), aside(spec)) == (2, [1, 1, 2, 2], [])


def test_the_rest_of_a_file_is_left_since_nobody_knows_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where a server broke off unnoticed: of what came after, no row is in the quarantine."""
    (tmp_path / "in").mkdir()
    lines = "".join(f"{each},{each}\n" for each in range(1, 2000))
    file = tmp_path / "in/a.csv.gz"
    file.write_bytes(gzip.compress(f"id,x\n{lines}".encode()))
    (tmp_path / "in/b.csv").write_text("id,x\n5000,1\n6000,bad\n")
    source = {"kind": "csv", "path": str(tmp_path / "in"), "types": {"x": "float64"}}
    spec = spec_of(tmp_path / "in", source=source, errors={"max_rejected_fraction": 0.9})
    read = Gzip.read

    def broken_off(opened: Gzip, size: int | None = -1) -> bytes:
        if opened.tell():
            raise DamagedFile("the compressed file is damaged")
        return read(opened, 4096)

    with monkeypatch.context() as away:
        away.setattr(Gzip, "read", broken_off)
        batch_inference(spec)
    first = [row["id"] for row in published(spec)]
    assert 5000 in first
    assert 100 < len(first) < 2000
    report = redrive(spec)
    assert report["rows"] == {"read": 1, "written": 0, "rejected": 1, "filtered": 0}
    assert [row["id"] for row in published(spec)] == first
    assert aside(spec)[0]["error_type"] == "DamagedFile"
    assert f"1 file could not be read to the end, the first {file}" in caplog.text
    os.utime(file, (0, 0))
    batch_inference(spec)
    assert sorted(row["id"] for row in published(spec)) == [*range(1, 2000), 5000]


def test_a_redrive_of_another_kind_of_source_is_refused(numbers: Path) -> None:
    batch_inference(picky(numbers, *BAD))
    with pytest.raises(InvalidSpec, match=r"source\.kind: 'csv' .* source is parquet"):
        redrive(picky(numbers, source={"kind": "csv", "path": "."}))


@pytest.mark.parametrize("lost", ["*", "*/run.json", "*/plans"])
def test_rows_of_a_run_of_which_something_is_gone_cannot_be_redriven(
    numbers: Path, lost: str
) -> None:
    spec = picky(numbers, *BAD)
    batch_inference(spec)
    for each in Path(f"{spec.sink.path}.state/runs").glob(lost):
        each.unlink() if each.is_file() else shutil.rmtree(each)
    with pytest.raises(
        InvalidSpec, match=r"the run that set the rows aside are gone .* every input"
    ):
        redrive(picky(numbers))


def test_rows_that_are_numbered_otherwise_are_not_taken_for_those_set_aside(
    tmp_path: Path,
) -> None:
    """The first line of a file is a row or a header, as column_names says."""
    (tmp_path / "a.csv").write_text("id,x\n0,0.0\n7,7.0\n")
    spec = picky(tmp_path, 7, source={"kind": "csv", "path": str(tmp_path / "*.csv")})
    batch_inference(spec)
    assert len(aside(spec)) == 1
    named = {**spec.source.model_dump(), "column_names": ["id", "x"]}
    with pytest.raises(InvalidSpec, match=r"source\.column_names: .* was None .* set it back"):
        redrive(picky(tmp_path, source=named))
    typed = {**spec.source.model_dump(), "types": {"x": "float64"}}
    assert redrive(picky(tmp_path, source=typed))["rows"]["written"] == 1


@pytest.mark.parametrize(
    ("field", "given"), [("kind", "jsonl"), ("partition_by", ["id"])], ids=["kind", "partition_by"]
)
def test_what_a_redrive_brings_in_lies_there_as_all_else_does(
    numbers: Path, field: str, given: Any
) -> None:
    spec = picky(numbers, *BAD)
    batch_inference(spec)
    other = {"kind": "parquet", "path": spec.sink.path, field: given}
    with pytest.raises(InvalidSpec, match=rf"sink\.{field}: .* set it back, or predict everything"):
        redrive(picky(numbers, sink=other))
    kept = {"kind": "parquet", "path": spec.sink.path, "rows_per_file": 100, "compression": "none"}
    assert redrive(picky(numbers, sink=kept))["rows"]["written"] == len(BAD)


@pytest.mark.ray
def test_a_redrive_on_ray_sets_aside_alone_what_kills_its_process(
    numbers: Path, ray_address: str
) -> None:
    refused = [5.0, *(float(each) for each in range(500, 510))]
    batch_inference(picky(numbers, *refused))
    model = {"kind": "python", "class": "predictors:KillsItsProcess"}
    spec = picky(numbers, model=model, cluster={"kind": "local", "address": ray_address})
    report = redrive(spec)
    assert report["rows"] == {"read": 11, "written": 10, "rejected": 1, "filtered": 0}
    assert report["attempts"] == 1
    assert ids(spec) == all_but(500)
    (row,) = aside(spec)
    assert (row["source"], row["row"]) == (str(numbers / "5.parquet"), 0)
    assert (row["stage"], row["error_type"]) == ("infer", "ProcessDied")
    (before,) = json.loads(row["history"])
    assert before["error_type"] == "ValueError"
