"""Runs that are not published: how they are found, given up, and left to who is at work."""

import json
import os
import re
import shutil
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import InvalidSpec, OutputHeld, UnfinishedRun, Unreachable
from tasks.lease import SILENT_SECONDS, Holder, load_holder, save_holder
from tasks.ledgers import ledger_of
from tasks.materializing_run import plan_materializing_run
from tasks.plan import PlannedRun, make_plan
from tasks.planning.config import digest
from tasks.planning.new_inputs import NewInputs
from tasks.planning.unfinished import give_up
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.ledger import Entry, Snapshot
from tasks.publish import publish_planned
from tasks.run import left_to_do, new_job, next_attempt
from tasks.run_options import RunOptions
from tasks.scheduled import at_time
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import parse_spec
from tests.noted_calls import noted_calls
from tests.reporting import classify_spec, make_inputs, run_attempt, run_spec


def test_no_folder_of_a_published_run_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in")
    planned, _ = run_spec(classify_spec(tmp_path))
    listed = noted_calls(monkeypatch, "list")
    make_plan(planned.spec, RunOptions(restart=True))
    assert listed, "the plan's own folder is"
    runs = planned.output.runs
    assert not [each for each in listed if each == runs or each.startswith(planned.run.path)]


def test_a_job_of_a_run_that_is_given_up_is_told_to_stop(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    gap = left_to_do(planned, tried=False)
    ended, left = new_job(planned, gap, 1), new_job(planned, gap, 2)
    planned.storage.write(ended.result_file, b"{}")
    make_plan(planned.spec, RunOptions(restart=True))
    assert not Path(ended.stopped_file).exists()
    assert Path(left.stopped_file).exists()


def test_the_first_job_of_a_cut_run_is_told_before_it_is_marked_as_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is cut short in between tells the jobs once more."""
    make_inputs(tmp_path / "in")
    cut = {"read": {"rows_per_batch": 50}, "preprocess": {"materialize": True}}
    planned = make_plan(classify_spec(tmp_path, stages=cut))
    before = plan_materializing_run(planned)
    assert before
    first = new_job(before, left_to_do(before, tried=False), 1)
    written = noted_calls(monkeypatch, "write")
    give_up(planned.spec, planned.run)
    assert written == [first.stopped_file, planned.run.abandoned]


def test_a_run_in_another_process_is_not_gone_on_with_here(tmp_path: Path) -> None:
    """Of a cluster its job would be followed; a process keeps its own."""
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    elsewhere = replace(Holder.of(os.getpid(), ("the-flow-run", "its-caller")), host="elsewhere")
    save_holder(planned.storage, planned.run.lease, elsewhere)
    told = r"at work in process \d+ on elsewhere for flow run the-flow-run; wait for it"
    with pytest.raises(OutputHeld, match=told):
        make_plan(planned.spec)
    silent_since = time.time() - SILENT_SECONDS - 5
    os.utime(planned.run.lease, (silent_since, silent_since))
    assert make_plan(planned.spec).run == planned.run


def test_a_run_that_was_begun_under_another_name_of_its_output_is_told_as_that(
    tmp_path: Path,
) -> None:
    """Its plan is there: what differs is the path, by a link's name or since it was moved."""
    make_inputs(tmp_path / "in")
    (tmp_path / "link").symlink_to(tmp_path)
    run_attempt(make_plan(classify_spec(tmp_path)))
    sink = {"kind": "parquet", "path": str(tmp_path / "link/out")}
    told = rf"what differs: sink\.path was '{tmp_path}/out', now '{tmp_path}/link/out'\. Undo"
    with pytest.raises(UnfinishedRun, match=told):
        make_plan(classify_spec(tmp_path, sink=sink))


def test_a_run_of_a_release_that_made_other_keys_is_not_said_to_have_no_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in")
    with monkeypatch.context() as then:
        then.setattr(
            "tasks.planning.call.digest", lambda parts: digest([*parts, "an earlier release"])
        )
        run_attempt(make_plan(classify_spec(tmp_path)))
    told = r"with 200 rows done; what differs: unknown, .* or another release started"
    with pytest.raises(UnfinishedRun, match=told):
        make_plan(classify_spec(tmp_path))


def test_a_restart_that_is_refused_gives_nothing_up(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    spec = classify_spec(tmp_path)
    first = make_plan(spec)
    job = new_job(first, left_to_do(first, tried=False), 1)
    step = {"kind": "select", "columns": ["txt"]}
    mistaken = parse_spec({**spec.model_dump(mode="json", by_alias=True), "steps": [step]})
    with pytest.raises(InvalidSpec, match="txt"):
        make_plan(mistaken, RunOptions(restart=True))
    assert not Path(job.stopped_file).exists()
    assert make_plan(spec).run == first.run
    assert make_plan(spec, RunOptions(restart=True)).run != first.run


def with_another_model(spec: BatchInferenceSpec) -> BatchInferenceSpec:
    """The same job with another argument of its model's."""
    raw = spec.model_dump(mode="json", by_alias=True)
    return parse_spec({**raw, "model": {**raw["model"], "init": {"bad": [1]}}})


def test_a_run_that_is_resumed_while_a_restart_lists_its_inputs_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in")
    first = make_plan(classify_spec(tmp_path))
    job = new_job(first, left_to_do(first, tried=False), 1)
    find = NewInputs.find

    def resume_meanwhile(*args: Any, **options: Any) -> NewInputs:
        elsewhere = replace(Holder.of(os.getpid()), host="elsewhere")
        save_holder(first.storage, first.run.lease, elsewhere)
        return find(*args, **options)

    monkeypatch.setattr(NewInputs, "find", resume_meanwhile)
    with pytest.raises(OutputHeld, match=f"held by run {first.run.run_id}, at work in process"):
        make_plan(with_another_model(first.spec), RunOptions(restart=True))
    assert not Path(job.stopped_file).exists()
    assert not Path(first.run.abandoned).exists()


def test_a_restart_that_is_cut_short_leaves_no_run_beside_the_one_it_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in")
    first = make_plan(classify_spec(tmp_path))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr("tasks.planning.call.save_and_reload", die)
        with pytest.raises(KeyboardInterrupt):
            make_plan(first.spec, RunOptions(restart=True))
    assert make_plan(first.spec).run != first.run


def test_a_restart_whose_plan_was_cut_short_is_one_when_its_flow_run_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in")
    first = make_plan(classify_spec(tmp_path))
    asked = RunOptions(restart=True, flow_runs=("asked", "parent"))

    def fail(*_: object, **__: object) -> None:
        raise Unreachable("source.path: no route")

    with monkeypatch.context() as away:
        away.setattr(NewInputs, "find", fail)
        with pytest.raises(Unreachable):
            make_plan(first.spec, asked)
    second = make_plan(first.spec, asked)
    assert second.run != first.run
    assert make_plan(first.spec, asked).run == second.run, "it gives up no run of its own"
    assert make_plan(first.spec, replace(asked, flow_runs=("other",))).run != second.run


@pytest.mark.parametrize("is_published", [True, False])
def test_a_restart_that_was_made_gives_up_nothing_that_others_have_begun_since(
    is_published: bool, tmp_path: Path
) -> None:
    make_inputs(tmp_path / "in")
    spec, asked = classify_spec(tmp_path), RunOptions(restart=True, flow_runs=("asked",))
    first = make_plan(spec, asked)
    if is_published:
        run_attempt(first)
        publish_planned(first)
        make_inputs(tmp_path / "in" / "more")
    other = make_plan(spec, RunOptions(restart=not is_published))
    assert make_plan(spec, asked).run == other.run != first.run
    assert not Path(other.run.abandoned).exists()


def test_who_plans_a_run_is_known_to_be_at_work_on_it(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    holder = load_holder(planned.storage, planned.run.lease)
    assert holder
    assert holder.is_this_process()


def test_a_run_that_was_given_up_makes_no_attempt(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    first = make_plan(classify_spec(tmp_path))
    gap = left_to_do(first, tried=False)
    give_up(first.spec, first.run)
    with pytest.raises(OutputHeld, match=r"run \w+ was given up, with --restart"):
        next_attempt(first, gap)


def test_a_run_that_is_given_up_as_it_is_published_takes_no_others_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose machine was suspended at the last moment: it had looked just before."""
    make_inputs(tmp_path / "in")
    first = make_plan(classify_spec(tmp_path), RunOptions(replace_output=True))
    run_attempt(first)
    commit, mended = DeltaLedger.commit, classify_spec(tmp_path, init={"bad": [9]})

    def commit_after_another(ledger: DeltaLedger, entry: Entry, seen: Snapshot) -> int:
        monkeypatch.undo()
        other = make_plan(mended, RunOptions(restart=True))
        run_attempt(other)
        assert publish_planned(other) == 1
        return commit(ledger, entry, seen)

    monkeypatch.setattr(DeltaLedger, "commit", commit_after_another)
    with pytest.raises(OutputHeld, match=rf"run {first.run.run_id} was given up, with --restart"):
        publish_planned(first)
    published = ledger_of(first.spec).look()
    assert (published.version, first.run.run_id in published.run_ids) == (1, False)


def test_fields_that_came_with_an_upgrade_are_no_difference(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    header = json.loads(planned.storage.read(planned.run.header))
    del header["spec"]["source"]["shuffle_seed"]
    planned.storage.write(planned.run.header, json.dumps(header).encode())
    run_attempt(planned)
    steps = [{"kind": "label_from_path", "column": "folder"}]
    other = parse_spec({**planned.spec.model_dump(mode="json", by_alias=True), "steps": steps})
    with pytest.raises(UnfinishedRun, match=r"with \d+ rows done; what differs: steps was "):
        make_plan(other)


def test_a_run_that_has_done_nothing_is_in_no_other_specs_way(tmp_path: Path) -> None:
    """Whoever mends the code that it failed on need not say that it is to be given up."""
    make_inputs(tmp_path / "in")
    begun = make_plan(classify_spec(tmp_path))
    job = new_job(begun, left_to_do(begun, tried=False), 1)
    again = make_plan(begun.spec)
    assert (again.run, again.notes) == (begun.run, []), "its own is gone on with"
    mended = classify_spec(tmp_path, init={"bad": [9]})
    looked_at = make_plan(mended, save=False)
    assert not Path(begun.run.abandoned).exists(), "who only looks changes nothing"
    planned = make_plan(mended)
    assert planned.run == looked_at.run != begun.run
    said = f"run {begun.run.run_id}, started by another spec or other code, has done no row"
    assert said in planned.notes[0]
    assert Path(begun.run.abandoned).exists()
    assert Path(job.stopped_file).exists(), "its job, should it live"
    run_attempt(planned)
    assert make_plan(mended).run == planned.run
    with pytest.raises(UnfinishedRun, match="of another spec, with "):
        make_plan(begun.spec)


def test_who_has_mended_how_inputs_are_read_need_not_give_up_what_has_done_nothing(
    tmp_path: Path,
) -> None:
    """An error says to name a type, or to leave a file out: whoever did was sent on once more."""
    make_inputs(tmp_path / "in")
    begun = make_plan(classify_spec(tmp_path))
    for field in ({"columns": ["id"]}, {"exclude": ["3.parquet"]}):
        source = {"kind": "parquet", "path": str(tmp_path / "in"), **field}
        mended = make_plan(classify_spec(tmp_path, source=source))
        assert "has done no row and is given up" in mended.notes[0]
        assert Path(begun.run.abandoned).exists()
        begun = mended


def test_who_is_told_to_make_a_new_version_need_not_give_up_what_has_done_nothing(
    tmp_path: Path,
) -> None:
    make_inputs(tmp_path / "in")
    begun = make_plan(classify_spec(tmp_path))
    anew = make_plan(begun.spec, RunOptions(replace_output=True))
    assert Path(begun.run.abandoned).exists()
    with pytest.raises(UnfinishedRun, match="what differs: --replace-output"):
        make_plan(begun.spec)  # which would do less than was asked for
    assert not Path(anew.run.abandoned).exists()


def test_a_run_of_other_inputs_that_has_done_nothing_is_somebodys_still(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    begun = make_plan(classify_spec(tmp_path))
    source = {"kind": "parquet", "path": [str(tmp_path / "in"), str(tmp_path / "in" / "*.parquet")]}
    other = parse_spec({**begun.spec.model_dump(mode="json", by_alias=True), "source": source})
    with pytest.raises(UnfinishedRun, match="of another spec; what differs: source"):
        make_plan(other)
    with pytest.raises(UnfinishedRun, match="what differs: --limit"):
        make_plan(begun.spec, RunOptions(limit=1))
    with pytest.raises(UnfinishedRun, match=r"another spec; what differs: .*; one of them is a "):
        make_plan(other, RunOptions(redrive=True))


def test_a_redrive_beside_an_unfinished_run_is_told_to_finish_that_first(tmp_path: Path) -> None:
    """As one that a gate holds back: of its own spec nothing differs that could be undone."""
    make_inputs(tmp_path / "in")
    begun = make_plan(classify_spec(tmp_path))
    with pytest.raises(UnfinishedRun) as told:
        make_plan(begun.spec, RunOptions(redrive=True))
    assert f"the unfinished run {begun.run.run_id}, which is no redrive: finish it" in str(
        told.value
    )
    assert "--accept" in str(told.value)
    assert "another spec" not in str(told.value)
    run_attempt(begun)
    with pytest.raises(UnfinishedRun, match=r"with \d+ rows done, which is no redrive"):
        make_plan(begun.spec, RunOptions(redrive=True))


def test_a_run_of_another_table_that_has_done_nothing_is_somebodys_still(tmp_path: Path) -> None:
    """All tables of a database have its path."""
    make_inputs(tmp_path / "in")
    given = classify_spec(tmp_path).model_dump(mode="json", by_alias=True)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        for table in ("orders", "returns"):
            database.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY)")
            database.execute(f"INSERT INTO {table} VALUES (1)")
        database.commit()
    orders, returns = (
        {"kind": "sql", "path": f"sqlite:///{tmp_path}/shop.db", "table": table, "key": "id"}
        for table in ("orders", "returns")
    )
    begun = make_plan(parse_spec({**given, "source": orders}))
    with pytest.raises(UnfinishedRun, match=r"what differs: source\.table"):
        make_plan(parse_spec({**given, "source": returns}))
    make_plan(parse_spec({**given, "source": {**orders, "range_size": 9}}))
    assert Path(begun.run.abandoned).exists()


def test_a_run_that_has_done_nothing_yet_and_is_at_work_is_left_alone(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    begun = make_plan(classify_spec(tmp_path))
    save_holder(begun.storage, begun.run.lease, Holder("elsewhere", 1, 0.0, time.time()))
    with pytest.raises(OutputHeld):
        make_plan(classify_spec(tmp_path, init={"bad": [9]}))


def test_the_unfinished_run_of_another_scheduled_time_is_named_by_it(tmp_path: Path) -> None:
    """All times share one output: to give that run up leaves out inputs that no other one takes."""
    (tmp_path / "in").mkdir()
    for day in ("2026-01-01", "2026-01-02"):
        make_inputs(tmp_path / "in" / day)
    given = classify_spec(tmp_path)
    source = {"kind": "parquet", "path": f"{tmp_path}/in/{{scheduled:%Y-%m-%d}}"}
    written = parse_spec({**given.model_dump(mode="json", by_alias=True), "source": source})
    first, second = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2))

    def plan(time: datetime) -> PlannedRun:
        return make_plan(at_time(written, time), RunOptions(scheduled_time=time))

    begun = plan(first)
    with pytest.raises(UnfinishedRun) as caught:
        plan(second)
    said = str(caught.value)
    assert f"run {begun.run.run_id} of the scheduled time 2026-01-01T00:00:00+00:00" in said
    assert "--scheduled-time 2026-01-01T00:00:00+00:00" in said
    assert "backfill" in said
    respelled = at_time(written, second).with_part("sink", path=f"file://{given.sink.path}")
    with pytest.raises(UnfinishedRun, match=re.escape(said)):  # it is the same place
        make_plan(respelled, RunOptions(scheduled_time=second))
    assert plan(first).run == begun.run
    run_attempt(begun)
    mended = classify_spec(tmp_path, init={"bad": [9]}, source=source)
    with pytest.raises(UnfinishedRun, match=r"Finish it with --scheduled-time 2026-01-01T.*--from"):
        make_plan(at_time(mended, second), RunOptions(scheduled_time=second))
    source_of_second = {"source": at_time(written, second).source}
    other = at_time(written, first).model_copy(update=source_of_second)
    with pytest.raises(UnfinishedRun, match=r"with \d+ rows done; what differs: source"):
        make_plan(other, RunOptions(scheduled_time=first))


def test_a_new_version_is_made_once_however_often_its_flow_run_is_started(tmp_path: Path) -> None:
    """As where its process dies when all is published and the report is not written yet."""
    make_inputs(tmp_path / "in")
    spec, asked = classify_spec(tmp_path), RunOptions(replace_output=True, flow_runs=("asked",))
    first = make_plan(spec, asked)
    run_attempt(first)
    publish_planned(first)
    assert make_plan(spec, asked).nothing_to_do
    assert not make_plan(spec, replace(asked, flow_runs=("other",))).nothing_to_do


def test_a_mended_model_is_told_one_way_out_of_both_what_is_in_its_way(tmp_path: Path) -> None:
    """By two errors, each named a command that the other one refused."""
    make_inputs(tmp_path / "in")
    planned, _ = run_spec(classify_spec(tmp_path))
    with pytest.raises(InvalidSpec, match=r"`batch-inference backfill SPEC` \(or --replace-output"):
        make_plan(with_another_model(planned.spec))
    shutil.copytree(tmp_path / "in", tmp_path / "in/more")
    run_attempt(make_plan(planned.spec))
    told = r"backfill SPEC --restart` \(or --replace-output --restart\) gives up the unfinished run"
    for options in (RunOptions(), RunOptions(restart=True)):
        with pytest.raises(InvalidSpec, match=told):
            make_plan(with_another_model(planned.spec), options)
    make_plan(with_another_model(planned.spec), RunOptions(restart=True, replace_output=True))
