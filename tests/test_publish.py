"""What is said of rows set aside, in little memory; and a run given up that ends all the same."""

import glob
import gzip
import json
import re
from pathlib import Path
from threading import Barrier
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tasks.errors import ErrorBudgetExceeded, InvalidSpec, OutputHeld, RunStopped, UnfinishedRun
from tasks.plan import PlannedRun, make_plan
from tasks.protocol.asked_at_once import fetched
from tasks.publish import publish_planned
from tasks.publishing import rejections
from tasks.publishing.rejections import EXAMPLES, Rejections, error_lines, with_rows
from tasks.ray_job.writing import QUARANTINE, QUARANTINE_SCHEMA
from tasks.run import forget_old_word, left_to_do
from tasks.run_options import RunOptions
from tasks.running_jobs import tell_to_stop
from tests.reporting import classify_spec, make_inputs, run_attempt, run_spec

READ = pq.read_table


def quarantine(rows: range, error_type: str, message: str = "bad") -> bytes:
    """A quarantine file of large rows."""
    large = "x" * 65_536
    known = {"source": "in", "stage": "infer", "error_message": message, "input_json": large}
    lines = [{**known, "row": row, "error_type": error_type} for row in rows]
    return QUARANTINE.encode(pa.Table.from_pylist(lines, QUARANTINE_SCHEMA))


def test_of_rows_set_aside_few_are_held_and_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    read, found = list[list[str]](), Rejections()

    def note(data: Any, columns: list[str]) -> pa.Table:
        read.append(columns)
        return READ(data, columns=columns)

    monkeypatch.setattr(pq, "read_table", note)
    for start in (300, 100, 200):
        found.add(quarantine(range(start, start + 100), "ValueError"))
    found.add(quarantine(range(5), "KeyError"), [row > 2 for row in range(5)])
    assert len(read) == 4
    assert not any("input_json" in columns for columns in read)
    assert [len(first) for first in found.first.values()] == [EXAMPLES, 2]
    assert error_lines(found) == [
        "  300 x ValueError in infer: bad",
        *(f"      in, row {row}" for row in (100, 101, 102)),
        "      and 297 more",
        "  2 x KeyError in infer: bad",
        *(f"      in, row {row}" for row in (3, 4)),
    ]
    assert found.by_stage == {"infer": 302}


def test_each_of_several_reasons_of_one_type_is_shown() -> None:
    found = Rejections()
    for rows, message in ((range(50, 90), "a"), (range(40), "empty"), (range(40, 50), "short")):
        found.add(quarantine(rows, "ValueError", message))
    assert error_lines(found) == [
        "  90 x ValueError in infer: empty",
        "      in, row 0",
        "      in, row 40: short",
        "      in, row 50: a",
        "      and 87 more",
    ]
    found.add(quarantine(range(39, 41), "ValueError", "earlier"))
    assert error_lines(found)[2:4] == ["      in, row 39: earlier", "      in, row 40: short"]


def test_rows_set_aside_are_sorted_once_for_each_file_and_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a large run there may be a million: row by row that took longer than its last minute."""
    chosen = Mock(wraps=rejections.telling_most)
    monkeypatch.setattr(rejections, "telling_most", chosen)
    found = Rejections()
    for start in (300, 100):
        found.add(quarantine(range(start, start + 100), "ValueError"))
    assert (found.counts.total(), chosen.call_count) == (200, 2)


def test_files_of_rows_set_aside_are_fetched_side_by_side() -> None:
    """Each takes a store's answer, and a run may have thousands: one by one that is minutes."""
    both = Barrier(2, timeout=60)

    def read(name: str) -> bytes:
        both.wait()
        return name.encode()

    assert list(fetched(read, ["a", "b", "c", "d"])) == [b"a", b"b", b"c", b"d"]


def test_who_exceeds_the_budget_is_shown_the_first_rows_of_each_error(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    bad, errors = [60, 70, 80, 90, 3], {"max_rejected_fraction": 0.01}
    planned = make_plan(classify_spec(tmp_path, {"bad": bad}, errors={"max_rejected_fraction": 1}))
    run_attempt(planned)
    spec = classify_spec(tmp_path, {"bad": bad}, errors=errors)
    with pytest.raises(ErrorBudgetExceeded) as caught:
        publish_planned(make_plan(spec))
    said = str(caught.value)
    assert said.startswith(
        "5 of 200 rows set aside, more than errors.max_rejected_fraction 0.01 and "
        "errors.rejected_rows_always_allowed 0 allow; nothing was published\n"
    )
    assert "  5 x ValueError in infer: </pre>" in said
    shown = [("0.parquet", 3), ("1.parquet", 10), ("1.parquet", 20)]
    for name, row in shown:
        assert f"/{name}, row {row}\n" in said
    assert "      and 2 more\n" in said
    assert planned.ledger.look().version == 0
    (place,) = re.findall("^All of them, with their inputs: (.*)$", said, re.MULTILINE)
    lines = [line for file in glob.glob(place) for line in pq.read_table(file).to_pylist()]
    assert sorted(json.loads(line["input_json"])["id"] for line in lines) == sorted(bad)


def test_a_word_that_makes_text_of_numbers_is_told_where_rows_fail_in_code(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("id\nunknown\n1\n2\n")
    planned = make_plan(classify_spec(tmp_path, source={"kind": "csv", "path": f"{tmp_path}/in"}))
    run_attempt(planned)
    with pytest.raises(ErrorBudgetExceeded, match=r"3 x TypeError in infer(.|\n)*'unknown' is amo"):
        publish_planned(planned)


def cut_off(folder: Path, kind: str) -> str:
    """Three files of 200 rows, of which one has lost its end; return its path."""
    make_inputs(folder, 3, 200)
    if kind == "delta":
        for file in sorted(folder.iterdir()):
            write_deltalake(folder, pq.read_table(file), mode="append")
            file.unlink()
    if kind in ("parquet", "delta"):
        *_, last = sorted(folder.glob("*.parquet"))
        last.write_bytes(last.read_bytes()[:-100])
        return str(last)
    line = {"csv": "{0}\n", "jsonl": '{{"id": {0}}}\n'}[kind]
    for at, file in enumerate(sorted(folder.iterdir())):
        rows = "".join(line.format(id_) for id_ in range(200))
        data = gzip.compress((("id\n" if kind == "csv" else "") + rows).encode())
        (folder / f"{at}.{kind}.gz").write_bytes(data if at < 2 else data[:-4])
        file.unlink()
    return str(folder / f"2.{kind}.gz")


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "delta"])
def test_a_file_that_is_cut_off_counts_as_its_share_of_the_files(tmp_path: Path, kind: str) -> None:
    place = cut_off(tmp_path / "in", kind)
    source = {"kind": kind, "path": str(tmp_path / "in")}
    if kind == "delta":  # which of its rows a filter leaves, the table does not tell
        source["filter"] = "id >= 0"
    fields: dict[str, Any] = {"source": source, "stages": {"read": {"rows_per_batch": 500}}}
    errors = {"max_rejected_fraction": 0.01, "rejected_rows_always_allowed": 5}
    strict = classify_spec(tmp_path, **fields, errors=errors)
    planned = make_plan(strict)
    run_attempt(planned)
    with pytest.raises(ErrorBudgetExceeded) as caught:
        publish_planned(planned)
    said = str(caught.value)
    assert said.startswith("1 of 3 files cannot be read to the end, more than errors.max_rejected")
    assert "  1 x DamagedFile in read: " in said
    assert place in said
    assert not left_to_do(planned, tried=True)
    assert left_to_do(planned, tried=False), "storage may have been at fault, once"
    assert publish_planned(make_plan(classify_spec(tmp_path, **fields))) == 1


def test_how_many_are_set_aside_is_what_is_listed_and_not_what_a_job_had_counted_before(
    tmp_path: Path,
) -> None:
    make_inputs(tmp_path / "in")

    def plan(fraction: float) -> PlannedRun:
        errors = {"max_rejected_fraction": fraction}
        return make_plan(classify_spec(tmp_path, {"bad": [60, 70, 80]}, errors=errors))

    planned = plan(1)
    run_attempt(planned)
    counted = ErrorBudgetExceeded("1 of 50 rows set aside, ...; nothing was published")
    assert str(with_rows(planned, counted)).startswith(counted.message)
    said = str(with_rows(plan(0.01), counted)).splitlines()
    assert said[0].startswith("3 of 200 rows set aside, more than ")
    assert said[0].endswith("; nothing was published")
    assert said[1].startswith("  3 x ")


def advice(folder: Path, model: str, init: dict[str, Any], **more: Any) -> str:
    """The last line of what is said of a run with too many rows set aside."""
    own = {"kind": "python", "class": f"report_models:{model}", "init": init}
    errors = {"max_rejected_fraction": 1}
    planned = make_plan(classify_spec(folder, model=own, errors=errors, **more))
    run_attempt(planned)
    said = str(with_rows(planned, ErrorBudgetExceeded("too many")))
    return said.rpartition("\n")[2]


@pytest.mark.parametrize("rows", [50, 3], ids=["many", "all of few"])
def test_where_all_rows_fail_alike_it_is_likely_the_code(rows: int, tmp_path: Path) -> None:
    make_inputs(tmp_path / "in", 1, rows)
    assert "it is probably the code; fix it" in advice(tmp_path, "Misspelt", {})


@pytest.mark.parametrize(
    ("model", "init"),
    [("Misspelt", {"error": "ValueError"}), ("Classify", {"bad": [*range(49)]})],
    ids=["what data leads to", "a good row"],
)
def test_else_the_input_may_be_wrong(model: str, init: dict[str, Any], tmp_path: Path) -> None:
    make_inputs(tmp_path / "in", 1, 50)
    way_out = "Fix the input or the spec and run again, with --restart if source, steps, "
    assert advice(tmp_path, model, init).startswith(way_out)


def test_a_run_that_was_given_up_publishes_nothing_over_the_next_one(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    sink = {"kind": "parquet", "path": str(tmp_path / "out"), "mode": "replace"}
    given_up = make_plan(classify_spec(tmp_path, {"bad": [1]}, sink=sink))
    run_attempt(given_up)
    other = classify_spec(tmp_path, {"bad": [2]}, sink=sink)
    following = make_plan(other, RunOptions(restart=True))
    run_attempt(following)
    assert publish_planned(following) == 1
    with pytest.raises(OutputHeld, match=r"run \w+ was given up, .* is not published"):
        publish_planned(given_up)
    assert [*following.ledger.look().entries] == [1]
    following.storage.write(f"{following.run.path}/abandoned", b"")
    assert publish_planned(following) == 1, "what is published stays so"


def test_a_run_that_is_stopped_while_it_is_judged_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path), RunOptions(flow_runs=("own",)))
    planned.hold()
    run_attempt(planned)

    def stop_meanwhile(*_: object) -> None:
        assert tell_to_stop(planned.spec, "own").ended

    with monkeypatch.context() as judging:
        judging.setattr("tasks.publish.check_budget", stop_meanwhile)
        with pytest.raises(RunStopped, match="run again to go on"):
            publish_planned(planned)
    assert planned.ledger.look().version == 0
    forget_old_word(planned)
    monkeypatch.setattr("tasks.publish.check_table", stop_meanwhile)
    monkeypatch.setattr("tasks.publish.refuse_stopped", lambda _: None)  # has looked by then
    assert publish_planned(planned) == 1
    monkeypatch.undo()
    assert publish_planned(planned) == 1, "what is published stays so"


@pytest.mark.parametrize("gone", ["files", "quarantine"])
def test_rows_whose_staged_files_are_gone_are_done_again(gone: str, tmp_path: Path) -> None:
    """As where the output was deleted under a job, which recorded what it had staged before."""
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path, {"bad": [3]}))
    run_attempt(planned)
    record = next(each for each in planned.accepted().records if each.quarantine)
    assert record.quarantine
    lost = record.files[0] if gone == "files" else record.quarantine
    Path(f"{planned.run.staging}/{lost.name}").unlink()
    again = make_plan(planned.spec)
    assert (again.run, again.rows_before) == (planned.run, 150)
    assert again.summary == "4 to do (150 rows done before), 0 published already"
    run_attempt(again)
    assert publish_planned(again) == 1
    files = [pq.read_table(file) for file in Path(again.output.path).glob("*.parquet")]
    ids = sorted(each for file in files for each in file["id"].to_pylist())
    assert ids == [each for each in range(200) if each != 3]
    left = len(again.accepted().settled)
    assert left == 199, "that files have left the staging folder for the output is no loss"


def test_what_file_managers_leave_is_no_record_and_no_schema(tmp_path: Path) -> None:
    """Whoever looks into a state's folders on a Mac leaves one of each."""
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    run_attempt(planned)
    names = [".DS_Store", *(f"._{each.name}.json" for each in planned.accepted().records)]
    for folder in (planned.run.records, planned.run.schemas, planned.run.staging):
        for name in names:
            Path(folder, name).write_bytes(b"\0\0\0\1Bud1")
    assert make_plan(planned.spec).rows_before == 200
    assert publish_planned(planned) == 1


def test_who_is_told_to_empty_a_table_is_told_to_give_up_the_run_that_found_it(
    tmp_path: Path,
) -> None:
    """Others have compacted it while the run was at work: it is unfinished, with all its rows."""
    make_inputs(tmp_path / "in")
    sink = {"kind": "delta", "path": str(tmp_path / "out"), "mode": "upsert", "key": ["id"]}
    spec = classify_spec(tmp_path, sink=sink)
    run_spec(spec)
    pq.write_table(pa.table({"id": range(50)}), tmp_path / "in/0.parquet")
    planned = make_plan(spec)
    run_attempt(planned)
    table = DeltaTable(spec.sink.path)
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(InvalidSpec) as caught:
        publish_planned(planned)
    assert "lost 4 files of this output" in str(caught.value)
    DeltaTable(spec.sink.path).delete()
    with pytest.raises(UnfinishedRun):
        make_plan(spec, RunOptions(replace_output=True))
    assert "run again with --replace-output, and with --restart too" in str(caught.value)
    _, report = run_spec(spec, RunOptions(replace_output=True, restart=True))
    assert report.rows["written"] == len(DeltaTable(spec.sink.path).to_pyarrow_table()) == 200
