"""Published rows predicted again: the same ones let runs go on under another config."""

import html
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

from flows.attempts import run_attempts
from flows.backfill import backfill
from flows.batch_inference import batch_inference
from flows.redrive import redrive
from flows.verify import verify
from tasks.errors import InputChanged, InvalidSpec, PredictionsDiffer, StaleLedger
from tasks.kinds.clusters import LocalCluster
from tasks.outputs import output_of
from tasks.plan import make_plan
from tasks.planning.config import digest
from tasks.planning.config_parts import UNSHOWN
from tasks.publish import publish_planned
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tasks.verifying.accepting import NAMED_OTHERWISE
from tasks.verifying.sample import draw_sample, trial_to_verify
from tests.flows.conftest import published, spec_of
from tests.reporting import html_in, run_attempt

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

DOUBLES = """
class Model:
    def __call__(self, batch):
        return {"doubled": batch["x"] * 2}
"""
COMMENTED = DOUBLES.replace("return", "# twice as much\n        return")
NEARLY = DOUBLES.replace("* 2", "* 2 * (1 + 1e-6)")
OTHERWISE = DOUBLES.replace("* 2", "* 2 + (batch['x'] > 990)")
MAPS = """
import numpy as np

class Model:
    def __call__(self, batch):
        return {"map": [np.full((1 + int(x) % 3, 2), x, np.float32) for x in batch["x"]]}
"""
PICKY = DOUBLES.replace("return", "assert 5 not in batch['x'], 'no fives'\n        return")


def with_code(numbers: Path, code: str, **changes: Any) -> BatchInferenceSpec:
    """The spec whose model is in a module with this code."""
    folder = numbers.parent / "code"
    folder.mkdir(exist_ok=True)
    (folder / "doubling_model.py").write_text(code)
    sys.modules.pop("doubling_model", None)  # as in another process
    model = {"kind": "python", "class": "doubling_model:Model"}
    given = {"environment": {"working_dir": str(folder)}, **changes}
    return spec_of(numbers, model=model, **given)


def add_file(numbers: Path, number: int = 10) -> None:
    ids = list(range(number * 100, number * 100 + 100))
    table = pa.table({"id": ids, "x": [float(each) for each in ids]})
    pq.write_table(table, numbers / f"{number}.parquet")


def page_of(name: str) -> str:
    only = ArtifactFilter(key=ArtifactFilterKey(any_=[f"{name}-verify"]))
    with get_client(sync_client=True) as client:
        found = client.read_artifacts(artifact_filter=only)
    return str(max(found, key=lambda each: each.updated or 0).data)


def left_behind(spec: BatchInferenceSpec) -> list[Path]:
    return list(Path(f"{spec.sink.path}.state").rglob("previews/*/*"))


def test_rows_that_come_out_the_same_are_said_to(numbers: Path) -> None:
    spec = with_code(numbers, DOUBLES)
    batch_inference(spec)
    before = published(spec)
    found = verify(spec, rows=40)
    assert (found["same"], found["accepted"], found["config"]["version"]) == (True, False, None)
    assert found["rows"] == {"published": 1000, "compared": 40, "differ": 0}
    assert published(spec) == before
    assert left_behind(spec) == []


def test_another_config_goes_on_once_its_rows_have_come_out_the_same(numbers: Path) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    add_file(numbers)
    spec = with_code(numbers, COMMENTED)
    with pytest.raises(InvalidSpec, match=r"another config published version 1 .* verify SPEC"):
        batch_inference(spec)
    found = verify(spec)
    assert found["config"] == {
        "version": 1,
        "differs": ["the code of steps or model"],
        "not_to_be_accepted": "",
    }
    assert not found["accepted"]
    with pytest.raises(InvalidSpec, match="another config published version 1"):
        batch_inference(spec)
    assert verify(spec, accept=True)["accepted"]
    assert "runs go on under this config" in page_of(spec.name)
    report = batch_inference(spec)
    assert (report["version"], report["rows"]["written"]) == (2, 100)
    assert [row["doubled"] for row in published(spec)] == [2.0 * each for each in range(1100)]
    # And it is one with the config that was there before.
    assert backfill(spec)["periods"][0]["told"].startswith("up to date")
    assert verify(spec, accept=True)["config"]["version"] is None
    add_file(numbers, 11)
    assert batch_inference(with_code(numbers, DOUBLES))["version"] == 3


def test_three_configs_are_one_where_each_is_one_with_the_next(numbers: Path) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    for number, code in enumerate((COMMENTED, COMMENTED + "\n# and so on"), start=10):
        add_file(numbers, number)
        spec = with_code(numbers, code)
        verify(spec, accept=True)
        batch_inference(spec)
    assert batch_inference(with_code(numbers, DOUBLES))["published"] is False
    with pytest.raises(InvalidSpec, match="another config published version 1"):
        batch_inference(with_code(numbers, OTHERWISE))


def test_rows_that_come_out_otherwise_let_nothing_go_on(numbers: Path) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    spec = with_code(numbers, OTHERWISE)
    with pytest.raises(PredictionsDiffer) as refused:
        verify(spec, rows=80, accept=True)
    # The last of eight places is the last ten rows.
    assert "9 of 80 rows come out differently than published" in str(refused.value)
    assert "doubled in 9 rows, by up to 0.000505 (" in str(refused.value)
    assert "9.parquet, row 91: was 1982, is 1983)" in str(refused.value)
    assert "80 rows, 9 come out differently" in page_of(spec.name)
    with pytest.raises(InvalidSpec, match="another config published version 1"):
        batch_inference(spec)
    assert left_behind(spec) == []


def test_floats_may_differ_by_as_much_as_is_said(numbers: Path) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    spec = with_code(numbers, NEARLY)
    largest = verify(spec)["columns"]["doubled"]["largest_difference"]
    assert largest == pytest.approx(1e-6, rel=0.01)
    with pytest.raises(PredictionsDiffer, match="beyond a tolerance of 0: doubled in 63 rows"):
        verify(spec, tolerance=0)
    for none in (-1.0, math.inf, math.nan):
        with pytest.raises(InvalidSpec, match=r"tolerance: .* must be a number, at least 0"):
            verify(spec, tolerance=none)


def test_arrays_of_differing_shapes_may_differ_by_as_much(numbers: Path) -> None:
    """A column of them holds their bytes."""
    batch_inference(with_code(numbers, MAPS))
    nearly = MAPS.replace("x, np.float32", "x * (1 + 1e-6), np.float32")
    found = verify(with_code(numbers, nearly))
    assert (found["same"], [*found["columns"]]) == (True, ["map"])
    with pytest.raises(PredictionsDiffer, match=r"map in \d+ rows, by up to .*was \[\["):
        verify(with_code(numbers, MAPS.replace("x, np.float32", "x * 1.01, np.float32")))


def test_rows_that_are_set_aside_now_come_out_otherwise(numbers: Path) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    with pytest.raises(PredictionsDiffer, match=r"1 of 64 .* set aside by infer: .*no fives"):
        verify(with_code(numbers, PICKY))


def test_what_errors_say_stands_on_the_page_as_it_is(numbers: Path) -> None:
    spec = with_code(numbers, DOUBLES, name="as-it-is")
    batch_inference(spec)
    said = "no [fives](http://elsewhere) or *others*"
    with pytest.raises(PredictionsDiffer):
        verify(with_code(numbers, PICKY.replace("no fives", said), name="as-it-is"))
    assert f"AssertionError: {said}" in html_in(page_of(spec.name))


def test_rows_that_are_set_aside_or_filtered_are_to_stay_so(numbers: Path) -> None:
    """Else rows of new inputs would be published beside old ones without them."""
    below = [{"kind": "filter", "expression": "x < 500"}]
    batch_inference(with_code(numbers, DOUBLES, steps=below))
    other = with_code(numbers, DOUBLES, steps=[{"kind": "filter", "expression": "x < 5000"}])
    with pytest.raises(PredictionsDiffer, match=r"32 of 64 .*row 52: was 0 rows, is 1 row"):
        verify(other, accept=True)


def test_what_was_set_aside_is_to_be_so_again(numbers: Path) -> None:
    loose = {"max_rejected_fraction": 0.1}
    batch_inference(with_code(numbers, PICKY, errors=loose))
    found = verify(with_code(numbers, PICKY, errors=loose))
    assert (found["same"], found["set_aside"]) == (True, [])
    with pytest.raises(PredictionsDiffer, match=r"1 of 64 .* was set aside, is 1 row\)\. Undo"):
        verify(with_code(numbers, DOUBLES, errors=loose), accept=True)


def test_children_in_several_folders_are_compared_within_each(numbers: Path) -> None:
    (numbers.parent / "code").mkdir()
    (numbers.parent / "code/child_steps.py").write_text(
        "def children(batch):\n"
        "    rows = sorted([*range(len(batch['id']))] * 3)\n"
        "    part = ['cab'[(at + batch['id'][row]) % 3] for at, row in enumerate(rows)]\n"
        "    same = {name: batch[name][rows] for name in ('__row', 'x', 'id')}\n"
        "    return {**same, 'part': part}\n"
    )
    steps: list[dict[str, Any]] = [
        {"kind": "python", "function": "child_steps:children", "with_row_ids": True}
    ]
    sink = {"kind": "parquet", "path": str(numbers.parent / "out"), "partition_by": ["part"]}
    spec = with_code(numbers, DOUBLES, steps=steps, sink=sink)
    batch_inference(spec)
    assert verify(spec, rows=1000)["same"]


def test_more_rows_are_advised_only_where_there_are_more(numbers: Path) -> None:
    for file in numbers.iterdir():
        file.unlink()
    for number in range(2):
        pq.write_table(pa.table({"id": [number] * 30, "x": [7.0] * 30}), numbers / f"{number}.p")
    source = {"kind": "parquet", "path": f"{numbers}/*.p"}
    by_file = {"read": {"rows_per_batch": 30}}
    batch_inference(with_code(numbers, DOUBLES, source=source, stages=by_file))
    spec = with_code(numbers, COMMENTED, source=source, stages=by_file)
    first = min(Path(spec.sink.path).glob("*.parquet"))
    pq.write_table(pq.read_table(first).slice(1), first)
    few = "only 30 rows of 64 with unchanged .* there are no others"
    with pytest.raises(InvalidSpec, match=few):
        verify(spec, accept=True)
    (numbers / "0.p").write_bytes(b"")
    with pytest.raises(InvalidSpec, match=few):
        verify(spec, accept=True)
    (numbers / "1.p").unlink()
    with pytest.raises(InvalidSpec, match=r"To compare, restore one of them$"):
        verify(spec)
    timed = spec.with_part("source", exclude=["{scheduled:%Y}.p"])
    with pytest.raises(InvalidSpec, match=r"them, or give the time .* with --scheduled-time$"):
        verify(timed)


def test_no_config_is_accepted_by_a_handful_of_rows(numbers: Path) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    spec = with_code(numbers, COMMENTED)
    with pytest.raises(InvalidSpec, match="rows: 1 must be at least 64 to accept"):
        verify(spec, rows=1, accept=True)
    for file in numbers.iterdir():
        file.unlink()
    pq.write_table(pa.table({"id": [1], "x": [7.0]}), numbers / "new.parquet")
    batch_inference(with_code(numbers, DOUBLES))
    with pytest.raises(InvalidSpec, match="only 1 row of 64 with unchanged inputs"):
        verify(spec, accept=True)
    assert left_behind(spec) == []


def test_what_depends_on_the_device_is_accepted_where_runs_go(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU bfloat16 and float32 differ, and on this machine's CPUs nothing shows that."""
    batch_inference(with_code(numbers, DOUBLES))
    spec = with_code(numbers, COMMENTED)
    there = with_code(numbers, COMMENTED, cluster={"kind": "ray_jobs", "address": "http://n:9"})
    differs = ["resources.dtype was 'float32', now 'auto'"]
    monkeypatch.setattr("tasks.verifying.accepting.differing_parts", lambda *_: ([], differs))
    with pytest.raises(InvalidSpec, match="now 'auto' shows where runs go, with --cluster"):
        verify(there, accept=True)
    assert "shows where runs go" in verify(there)["config"]["not_to_be_accepted"]
    assert verify(spec, accept=True)["accepted"]


def test_what_cuts_inputs_otherwise_is_no_matter_of_values(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    other: tuple[list[str], list[str]] = ([], [UNSHOWN["cut"]])
    monkeypatch.setattr("tasks.verifying.accepting.differing_parts", lambda *_: other)
    with pytest.raises(InvalidSpec, match="values cannot show that: how the source is cut"):
        verify(with_code(numbers, COMMENTED), accept=True)


def test_a_redrive_has_nothing_to_tell_of_an_equal_config(numbers: Path) -> None:
    loose = {"max_rejected_fraction": 0.1}
    batch_inference(with_code(numbers, PICKY, errors=loose))
    other = with_code(numbers, f"{PICKY}# the same\n", errors=loose)
    options = RunOptions(redrive=True)
    assert "predicted with another config" in make_plan(other, options, save=False).notes[0]
    verify(other, accept=True)
    assert make_plan(other, options, save=False).notes == []


def test_a_config_that_cannot_be_read_is_not_taken_for_one_of_the_same_form(numbers: Path) -> None:
    spec = with_code(numbers, DOUBLES)
    run_id = batch_inference(spec)["run_id"]
    header = Path(output_of(spec)[1].run(run_id).header)
    told = json.loads(header.read_text())
    told["spec"]["model"]["of_another_release"] = 1
    header.write_text(json.dumps(told))
    with pytest.raises(InvalidSpec, match="the difference is unknown"):
        verify(with_code(numbers, COMMENTED), accept=True)


def test_a_config_that_another_release_named_otherwise_is_accepted_by_its_rows(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its spec is there, and differs in nothing: errors sent to verify, which refused it."""
    spec = with_code(numbers, DOUBLES)
    with monkeypatch.context() as then:
        then.setattr("tasks.planning.config.digest", lambda parts: digest([parts, "then"]))
        batch_inference(spec)
    with pytest.raises(InvalidSpec, match=r"or nothing, where another release .*SPEC --accept`"):
        batch_inference(spec)
    with monkeypatch.context() as lost:
        lost.setattr("tasks.verifying.accepting.left_by", lambda *_: None)
        with pytest.raises(InvalidSpec, match="that spec is gone"):
            verify(spec, accept=True)
    found = verify(spec, accept=True)
    assert found["accepted"]
    assert found["config"]["differs"] == [NAMED_OTHERWISE]
    assert batch_inference(spec)["published"] is False


def test_a_word_that_is_none_is_named_and_other_files_are_passed_over(numbers: Path) -> None:
    spec = with_code(numbers, DOUBLES)
    batch_inference(spec)
    folder = Path(output_of(spec)[1].equal_configs)
    folder.mkdir()
    (folder / ".DS_Store").write_bytes(b"\0")
    assert batch_inference(spec)["published"] is False
    for words in ("", "{}", "[1]"):
        (folder / "0.json").write_text(words)
        with pytest.raises(
            InvalidSpec, match=r"0\.json' is not as it was written .* Delete it, and verify"
        ):
            batch_inference(spec)


def test_who_publishes_meanwhile_is_told_apart_from_who_takes_files_away(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = with_code(numbers, DOUBLES)
    batch_inference(spec)

    def and_replace(*given: Any) -> Any:
        done = run_attempts(*given)
        batch_inference(spec, replace_output=True)
        return done

    monkeypatch.setattr("flows.verify.run_attempts", and_replace)
    with pytest.raises(StaleLedger, match=r"somebody has published to .* meanwhile: verify again"):
        verify(spec)


def test_an_input_that_changes_while_it_is_read_is_no_other_spec(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = with_code(numbers, DOUBLES)
    batch_inference(spec)

    def and_change(*given: Any) -> Any:
        pq.write_table(pa.table({"id": [1], "x": [7.0]}), numbers / "0.parquet")
        return run_attempts(*given)

    monkeypatch.setattr("flows.verify.run_attempts", and_change)
    with pytest.raises(InputChanged):
        verify(spec)
    assert left_behind(spec) == []


def test_who_comes_again_after_a_crash_may_draw_others(numbers: Path) -> None:
    """Somebody has published meanwhile."""
    spec = with_code(numbers, DOUBLES)
    batch_inference(spec)
    trial = trial_to_verify(spec, 64, "crashed", on_cluster=False)
    first = draw_sample(spec, trial, 64, ())
    for number in range(10, 20):
        add_file(numbers, number)
    batch_inference(spec)
    again = draw_sample(spec, trial, 64, ())
    assert again.planned.run_key != first.planned.run_key
    assert len(again.as_published().rows) == len(again.chosen) == 64


def test_rows_of_inputs_that_have_changed_are_left_out(numbers: Path) -> None:
    spec = with_code(numbers, DOUBLES)
    batch_inference(spec)
    pq.write_table(pa.table({"id": [1, 2], "x": [7.0, 8.0]}), numbers / "0.parquet")
    found = verify(spec)
    assert (found["rows"]["compared"], found["inputs_changed_or_gone"]) == (64, 1)
    for file in numbers.iterdir():
        if file.name != "5.parquet":
            file.unlink()
    found = verify(spec)
    assert (found["rows"]["compared"], found["inputs_changed_or_gone"]) == (64, 9)
    (numbers / "5.parquet").unlink()
    with pytest.raises(
        InvalidSpec, match=r"no longer has the inputs of 64 published rows unchanged"
    ):
        verify(spec)


def test_rows_of_published_files_that_others_have_changed_are_passed_over(numbers: Path) -> None:
    spec = with_code(numbers, DOUBLES)
    batch_inference(spec)
    files = sorted(Path(spec.sink.path).glob("*.parquet"))
    pq.write_table(pq.read_table(files[0]).slice(1), files[0])
    files[1].unlink()
    found = verify(spec)
    assert found["same"]
    assert 0 < found["rows_in_changed_files"] == 64 - found["rows"]["compared"]
    assert "whose files others have changed" in page_of(spec.name)
    with pytest.raises(PredictionsDiffer, match="doubled in"):
        verify(with_code(numbers, OTHERWISE), rows=1000)
    with pytest.raises(InvalidSpec, match=r"only \d+ rows of 64 with .* files could"):
        verify(with_code(numbers, COMMENTED), accept=True)
    assert verify(with_code(numbers, COMMENTED), rows=1000, accept=True)["accepted"]
    assert left_behind(spec) == []


def test_published_files_that_others_have_all_changed_cannot_be_compared_with(
    numbers: Path,
) -> None:
    spec = with_code(numbers, DOUBLES)
    batch_inference(spec)
    for file in Path(spec.sink.path).glob("*.parquet"):
        pq.write_table(pq.read_table(file).slice(1), file)
    with pytest.raises(InvalidSpec, match=r"49 rows instead of 50\): it is damaged, or was moved"):
        verify(spec)
    assert left_behind(spec) == []


def as_text(column: str) -> Callable[[pa.Table], pa.Table]:
    def change(rows: pa.Table) -> pa.Table:
        at = rows.column_names.index(column)
        return rows.set_column(at, column, rows[column].cast(pa.string()))

    return change


def without_doubled(rows: pa.Table) -> pa.Table:
    return rows.drop_columns("doubled")


@pytest.mark.parametrize(
    ("kind", "change", "told"),
    [
        ("parquet", without_doubled, "it has no column 'doubled'"),
        ("parquet", as_text("doubled"), "its column 'doubled' is string, but was double"),
        ("jsonl", without_doubled, "it has no column 'doubled'"),
        ("jsonl", as_text("doubled"), "its column 'doubled' is string, but was double"),
        ("csv", without_doubled, "Column 'doubled' in include_columns does not exist"),
    ],
)
def test_files_whose_columns_others_have_changed_are_named_and_passed_over(
    numbers: Path, kind: str, change: Callable[[pa.Table], pa.Table], told: str
) -> None:
    """What is no longer in a file was not published as nothing."""
    spec = with_code(numbers, DOUBLES, sink={"kind": kind, "path": str(numbers.parent / "out")})
    batch_inference(spec)
    first = min(Path(spec.sink.path).glob("part-*"))
    first.write_bytes(spec.sink.encode(change(spec.sink.decode(first.read_bytes()))))
    found = verify(spec)
    assert (found["same"], found["rows"]["compared"]) == (True, 56)
    (said,) = found["changed_files"]
    assert f"{first.name}' is not as it was published ({told}" in said
    assert told in html.unescape(page_of(spec.name))


@pytest.mark.parametrize(
    ("kind", "told"), [("parquet", "Corrupt ZSTD"), ("jsonl", "Expecting"), ("lance", "not as")]
)
def test_a_damaged_file_is_named_and_passed_over(numbers: Path, kind: str, told: str) -> None:
    spec = with_code(numbers, DOUBLES, sink={"kind": kind, "path": str(numbers.parent / "out")})
    batch_inference(spec)
    first = min(Path(spec.sink.path).rglob("part-*"))
    content = first.read_bytes()
    first.write_bytes(content[:10] + b"\0" * 200 + content[210 if kind != "lance" else 310 :])
    (said,) = verify(spec)["changed_files"]
    assert first.name in said
    assert told in said
    first.write_bytes(b"")
    assert [first.name in said for said in verify(spec)["changed_files"]] == [True]


def test_a_csv_that_others_have_saved_with_other_delimiters_cannot_be_compared_with(
    numbers: Path,
) -> None:
    spec = with_code(numbers, DOUBLES, sink={"kind": "csv", "path": str(numbers.parent / "csv")})
    batch_inference(spec)
    for file in Path(spec.sink.path).glob("*.csv"):
        file.write_text(file.read_text().replace(",", ";"))
    with pytest.raises(InvalidSpec, match=r"is not as it was published .* or was moved"):
        verify(spec)


def test_what_a_table_has_got_after_a_compaction_is_compared(numbers: Path) -> None:
    place = str(numbers.parent / "table")
    spec = with_code(numbers, DOUBLES, sink={"kind": "delta", "path": place})
    batch_inference(spec)
    DeltaTable(place).optimize.compact()
    old = {"retention_hours": 0, "enforce_retention_duration": False}
    DeltaTable(place).vacuum(dry_run=False, **old)
    with pytest.raises(InvalidSpec, match="a table's compaction"):
        verify(spec)
    add_file(numbers)
    batch_inference(spec)
    found = verify(spec)
    assert (found["same"], found["rows"]["published"]) == (True, 1_100)
    assert 0 < found["rows"]["compared"] == 64 - found["rows_in_changed_files"]


def test_all_rows_are_compared_where_more_are_asked_for(numbers: Path) -> None:
    spec = with_code(numbers, DOUBLES)
    batch_inference(spec)
    assert verify(spec, rows=2000)["rows"]["compared"] == 1000


def test_what_this_process_lacks_is_said_before_rows_are_drawn(numbers: Path) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    there = with_code(
        numbers,
        DOUBLES,
        cluster={"kind": "ray_jobs", "address": "http://n:9"},
        environment={"working_dir": str(numbers.parent / "code"), "pip": ["no-such-package"]},
    )
    with pytest.raises(InvalidSpec, match=r"environment.pip: .* --cluster"):
        verify(there)


def test_nothing_is_compared_where_nothing_is_published(numbers: Path) -> None:
    with pytest.raises(InvalidSpec, match="has no published rows to compare with"):
        verify(with_code(numbers, DOUBLES))


def test_what_decides_how_rows_lie_is_not_accepted_by_their_values(numbers: Path) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    sink = {"kind": "parquet", "path": str(numbers.parent / "out"), "compression": "snappy"}
    spec = with_code(numbers, COMMENTED, sink=sink)
    with pytest.raises(InvalidSpec, match=r"another config, .* sink\.compression was .*snappy"):
        verify(spec, accept=True)
    assert verify(spec)["same"]


def test_rows_of_a_redrive_are_of_any_config_and_not_compared(numbers: Path) -> None:
    loose = {"max_rejected_fraction": 0.1}
    first = with_code(numbers, PICKY, errors=loose)
    batch_inference(first)
    other = with_code(numbers, DOUBLES.replace("* 2", "* 3"), errors=loose)
    assert redrive(other)["rows"]["written"] == 1
    assert published(first)[5]["doubled"] == 15.0
    rows = verify(with_code(numbers, PICKY, errors=loose), rows=2000)["rows"]
    assert rows["compared"] == 999


def test_rows_are_compared_in_the_columns_and_folders_of_the_output(numbers: Path) -> None:
    sink = {
        "kind": "parquet",
        "path": str(numbers.parent / "out"),
        "keep_columns": ["id", "parity"],
        "partition_by": ["parity"],
    }
    steps = [{"kind": "python", "function": "parting:part"}]
    (numbers.parent / "code").mkdir()
    (numbers.parent / "code/parting.py").write_text(
        "def part(batch):\n    return {**batch, 'parity': batch['id'] % 2}\n"
    )
    spec = with_code(numbers, DOUBLES, sink=sink, steps=steps)
    batch_inference(spec)
    assert verify(spec)["same"]
    with pytest.raises(PredictionsDiffer, match="doubled in 8 rows"):
        verify(with_code(numbers, OTHERWISE, sink=sink, steps=steps))


def test_what_was_seen_is_kept_beside_the_ledger(numbers: Path) -> None:
    batch_inference(with_code(numbers, DOUBLES))
    spec = with_code(numbers, COMMENTED)
    found = verify(spec, accept=True)
    storage, output = output_of(spec)
    (word,) = (json.loads(storage.read(s.path)) for s in storage.list(output.equal_configs))
    assert (word["rows"], word["flow_run"]) == (64, found["flow_run_id"])
    assert word["differs"] == ["the code of steps or model"]


def test_of_an_upsert_the_rows_that_newer_ones_of_their_key_have_left_are_compared(
    numbers: Path,
) -> None:
    """Each input row becomes two, and those of the last 150 are left."""
    code = numbers.parent / "code"
    code.mkdir()
    (code / "doubling_steps.py").write_text(
        "import pyarrow as pa\n\n\n"
        "def twice(batch):\n"
        "    rows = sorted([*range(len(batch['id']))] * 2)\n"
        "    key = [f'{batch[\"id\"][row] % 150}-{at % 2}' for at, row in enumerate(rows)]\n"
        "    return {'__row': batch['__row'][rows], 'x': batch['x'][rows], 'key': key}\n"
    )
    steps: list[dict[str, Any]] = [
        {"kind": "python", "function": "doubling_steps:twice", "with_row_ids": True}
    ]
    sink: dict[str, Any] = {"kind": "delta", "path": str(numbers.parent / "out")}
    sink |= {"mode": "upsert", "key": ["key"], "newest_by": "x"}
    spec = with_code(numbers, DOUBLES, steps=steps, sink=sink)
    report = batch_inference(spec)
    assert report["rows"]["written"] == 300
    rows = verify(spec, rows=1000)["rows"]
    assert (rows["published"], rows["differ"]) == (300, 0)
    assert rows["compared"] == 1000
    with pytest.raises(PredictionsDiffer, match=r"9 of 1,000 .* doubled in 9 rows"):
        verify(with_code(numbers, OTHERWISE, steps=steps, sink=sink), rows=1000)
    more = (code / "doubling_steps.py").read_text().replace("* 2)", "* 3)").replace("% 2}", "% 3}")
    (code / "doubling_steps.py").write_text(more)
    sys.modules.pop("doubling_steps")
    # Keys that are nobody's, of rows whose others were superseded too.
    with pytest.raises(PredictionsDiffer, match=r"1,000 of 1,000 .* was 0 rows, is 1 row"):
        verify(spec, rows=1000)


@pytest.mark.ray
def test_rows_come_out_the_same_on_ray(numbers: Path, ray_address: str) -> None:
    spec = with_code(numbers, DOUBLES)
    batch_inference(spec)
    there = spec.model_copy(update={"cluster": LocalCluster(address=ray_address)})
    found = verify(there, on_cluster=True)
    assert found["rows"] == {"published": 1000, "compared": 64, "differ": 0}


def test_where_no_config_differs_the_way_out_is_another_one(numbers: Path) -> None:
    """As after a new release of a library: a backfill would find nothing to do."""
    code = numbers.parent / "code"
    code.mkdir()
    (code / "factor.txt").write_text("2")
    reads = f"float(Path({str(code / 'factor.txt')!r}).read_text())"
    factor = "from pathlib import Path\n" + DOUBLES.replace("* 2", f"* {reads}")
    spec = with_code(numbers, factor)
    batch_inference(spec)
    (code / "factor.txt").write_text("3")
    with pytest.raises(
        PredictionsDiffer, match="or run `batch-inference run SPEC --replace-output`"
    ):
        verify(spec)


def test_a_run_that_others_have_outrun_under_an_equal_config_is_published(numbers: Path) -> None:
    """Its plan is of before, and the ledger has the other config's word since."""
    batch_inference(with_code(numbers, DOUBLES))
    other = with_code(numbers, COMMENTED)
    verify(other, accept=True)
    add_file(numbers)
    planned = make_plan(other)
    run_attempt(planned)
    (numbers / "10.parquet").rename(numbers.parent / "10.parquet")
    add_file(numbers, 11)
    abandoned = Path(planned.run.abandoned)
    abandoned.write_bytes(b"")  # so that another run may begin
    assert batch_inference(with_code(numbers, DOUBLES))["version"] == 2
    abandoned.unlink()
    assert publish_planned(planned) == 3
