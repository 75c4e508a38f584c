"""Jobs of an output that have not ended, as its files tell."""

import json
import logging
import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks import running_jobs
from tasks.clusters import stopping
from tasks.errors import InvalidSpec, Unreachable
from tasks.lease import Holder, save_holder
from tasks.materializing_run import plan_materializing_run
from tasks.outputs import output_of
from tasks.plan import make_plan
from tasks.planning.unfinished import give_up
from tasks.protocol.delta_ledger import DeltaLedger
from tasks.publish import publish_planned
from tasks.ray_job import follower_heartbeat
from tasks.ray_job.counts import AFTER_CUT
from tasks.ray_job.job import Job
from tasks.run import left_to_do, new_job, next_attempt
from tasks.run_options import RunOptions
from tasks.running_jobs import (
    Told,
    live_jobs,
    runs_at_work,
    stop_jobs,
    tell_to_stop,
    unfinished_jobs,
)
from tests.noted_calls import noted_calls
from tests.reporting import classify_spec, make_inputs, run_attempt


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """The first of a run that has just begun."""
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    return next_attempt(planned, left_to_do(planned, tried=False)).job


def file_of(job: Job) -> Path:
    return Path(f"{job.folder}/job.json")


def as_another_version_has_it(job: Job, **fields: object) -> None:
    """Fields of the job file, or of the spec in it, that this version does not know."""
    file = file_of(job)
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))


def test_what_has_ended_is_not_read(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    assert [each.id for each in unfinished_jobs(job.spec)] == [job.id]
    Path(job.result_file).write_text("{}")
    assert unfinished_jobs(job.spec) == []
    file_of(job).write_text("no JSON")
    assert unfinished_jobs(job.spec) == []
    assert not caplog.messages


@pytest.mark.parametrize("fields", [{"of_tomorrow": 1}, {"spec": {"of_tomorrow": 1}}])
def test_another_versions_job_is_passed_over(
    job: Job, fields: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    planned = make_plan(job.spec)
    second = new_job(planned, left_to_do(planned, tried=False), job.attempt + 1)
    as_another_version_has_it(job, **fields)
    with caplog.at_level(logging.WARNING):
        assert [each.id for each in unfinished_jobs(job.spec)] == [second.id]
    (warning,) = caplog.messages
    assert str(file_of(job)) in warning
    assert "of_tomorrow" in warning


def test_word_of_a_cut_runs_first_job_that_is_damaged_keeps_no_other_from_being_stopped(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong is said once all are stopped."""
    Path(job.run.prepared).write_text("no JSON")
    with pytest.raises(InvalidSpec, match="is damaged"):
        stop_jobs(job.spec)
    assert Path(job.stopped_file).exists()
    monkeypatch.setattr(running_jobs, "between_attempts", lambda *_: [])  # nobody holds the run
    told = tell_to_stop(job.spec)
    assert [each.id for each in told.unseen] == [job.id]
    assert [type(each) for each in told.errors] == [InvalidSpec]
    with pytest.raises(InvalidSpec, match="is damaged"):
        give_up(job.spec, job.run)
    assert not Path(job.run.abandoned).exists(), "who comes next tells them"


def test_that_of_a_run_which_is_given_up_is_no_trouble(job: Job) -> None:
    """Whoever gave it up has told its first job, if there was one; else each look would fail."""
    give_up(job.spec, job.run)
    Path(job.run.prepared).write_text("no JSON")
    told = tell_to_stop(job.spec)
    assert (told.unseen, told.errors) == ([], [])
    assert [each.id for each in unfinished_jobs(job.spec)] == [job.id]


def test_a_run_is_published_though_one_of_its_jobs_cannot_be_told(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    planned = make_plan(job.spec)
    run_attempt(planned)
    Path(job.run.prepared).write_text("no JSON")
    assert publish_planned(planned) == 1
    assert "published, but jobs that no run follows could not be told" in caplog.text


def test_a_storage_that_fails_for_one_job_keeps_no_other_from_being_stopped(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = make_plan(job.spec)
    second = new_job(planned, left_to_do(planned, tried=False), job.attempt + 1)
    write = type(job.storage).write

    def fail_for_second(storage: Any, path: str, *content: Any) -> None:
        if path == second.stopped_file:
            raise TimeoutError("no answer")
        write(storage, path, *content)

    monkeypatch.setattr(type(job.storage), "write", fail_for_second)
    told = tell_to_stop(job.spec)
    assert [each.id for each in told.unseen] == [second.id]
    (error,) = told.errors
    assert "cannot be told to stop: no answer" in str(error)
    assert Path(job.stopped_file).exists()


def test_another_versions_job_is_followed_by_a_new_one(job: Job) -> None:
    as_another_version_has_it(job, of_tomorrow=1)
    planned = make_plan(job.spec)
    assert next_attempt(planned, left_to_do(planned, tried=True)).job.attempt == job.attempt + 1


def test_a_job_whose_cluster_is_gone_keeps_no_other_from_being_stopped(
    job: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stopped: list[str] = []

    class Cluster:
        """Knows the second job; the first one's is gone."""

        def attach(self, asked: Job) -> SimpleNamespace:
            if asked.id == job.id:
                raise Unreachable("cluster.address: gone")
            return SimpleNamespace(stop=lambda: stopped.append(asked.id))

    released: list[str] = []
    for module in (running_jobs, stopping):
        monkeypatch.setattr(module, "cluster_of", lambda cluster: Cluster())
    monkeypatch.setattr(stopping, "release", lambda cluster, run_id: released.append(run_id))
    assert live_jobs(job.spec) == []
    said = f"cannot tell whether job {job.id} runs: cluster.address: gone"
    assert caplog.messages == [said]
    planned = make_plan(job.spec)
    second = new_job(planned, left_to_do(planned, tried=False), job.attempt + 1)
    assert [found.id for found, _ in live_jobs(job.spec)] == [second.id]
    assert caplog.messages == [said], "nobody is asked for what the run has gone on without"
    assert [each.id for each in stop_jobs(job.spec)] == [second.id]
    assert stopped == [second.id]
    assert released == [job.run_id]
    assert Path(job.stopped_file).exists()
    told = tell_to_stop(job.spec)
    assert [each.id for each in told.stopped] == [second.id]
    assert (told.unseen, told.errors) == ([], []), "the run has gone on without it"


def test_a_job_is_stopped_though_no_word_can_be_left_for_those_before_it(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are dead, and it may hold GPUs."""
    planned = make_plan(job.spec)
    second = new_job(planned, left_to_do(planned, tried=False), job.attempt + 1)
    stopped: list[str] = []

    def attach(asked: Job) -> SimpleNamespace:
        return SimpleNamespace(stop=lambda: stopped.append(asked.id))

    monkeypatch.setattr(stopping, "cluster_of", lambda _: SimpleNamespace(attach=attach))
    Path(job.stopped_file).mkdir()  # no file can be written there
    with pytest.raises(OSError, match="stopped"):
        tell_to_stop(job.spec)
    assert stopped == [second.id]
    assert Path(second.stopped_file).exists()


def test_a_head_that_is_sick_keeps_no_cluster_alive(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attach(asked: Job) -> None:
        raise Unreachable("cluster.address: gone")

    released: list[str] = []
    monkeypatch.setattr(stopping, "cluster_of", lambda _: SimpleNamespace(attach=attach))
    monkeypatch.setattr(stopping, "release", lambda _, run_id: released.append(run_id))
    told = tell_to_stop(job.spec)
    assert (told.unseen, [str(error) for error in told.errors]) == (
        [job],
        ["cluster.address: gone"],
    )
    assert released == [job.run_id]


def test_a_job_that_nobody_can_see_is_told_to_stop_all_the_same(job: Job) -> None:
    """It may be at work in another process: no cluster knows an inline one."""
    told = tell_to_stop(job.spec)
    assert (told.stopped, told.errors) == ([], [])
    assert [each.id for each in told.unseen] == [job.id]
    assert Path(job.stopped_file).exists()


def test_what_its_run_has_gone_on_without_is_not_told_of_for_ever(job: Job) -> None:
    """It died, and left no result; the next attempt did the rest."""
    planned = make_plan(job.spec)
    second = new_job(planned, left_to_do(planned, tried=False), job.attempt + 2)
    assert [each.id for each in tell_to_stop(job.spec).unseen] == [second.id]
    Path(second.result_file).write_text("{}")
    told = tell_to_stop(job.spec)
    assert (told.stopped, told.unseen, told.errors) == ([], [], [])
    assert Path(job.stopped_file).exists()


def test_jobs_that_were_killed_before_their_run_was_published_are_not_looked_at(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In months there are thousands, and to ask whether one runs may take seconds."""
    planned = make_plan(job.spec)
    run_attempt(planned)
    assert unfinished_jobs(job.spec)
    publish_planned(planned)
    assert Path(job.stopped_file).exists(), "one that lives all the same stops by itself"
    looked_at = noted_calls(monkeypatch, "list", "read")
    assert (live_jobs(job.spec), runs_at_work(job.spec)) == ([], {})
    assert tell_to_stop(job.spec) == Told([], [], [], [])
    assert looked_at == []


def test_who_stops_a_run_that_was_killed_often_asks_for_its_last_attempt_alone(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three hundred that were killed each has a cluster that is gone, and is slow to say so.

    To list the attempts once for each of them took half a million names.
    """
    planned = make_plan(job.spec)
    jobs = [new_job(planned, left_to_do(planned, tried=False), at) for at in range(2, 40)]
    listed, asked = noted_calls(monkeypatch, "list"), list[str]()
    attach = SimpleNamespace(attach=lambda asked_for: asked.append(asked_for.id))
    monkeypatch.setattr(stopping, "cluster_of", lambda _: attach)
    assert [each.id for each in tell_to_stop(job.spec).unseen] == asked == [jobs[-1].id]
    assert all(Path(each.stopped_file).exists() for each in (job, *jobs))
    assert len(listed) < 5


def test_a_damaged_ledger_keeps_no_job_from_being_stopped(job: Job) -> None:
    log = Path(f"{output_of(job.spec)[1].ledger}/_delta_log/{0:020}.json")
    log.parent.mkdir(parents=True)
    log.write_text("no JSON")
    with pytest.raises(InvalidSpec, match="is a ledger with a damaged log file"):
        tell_to_stop(job.spec)
    assert Path(job.stopped_file).exists()


def test_nor_does_a_ledger_that_is_away(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(ledger: DeltaLedger) -> None:
        raise OSError("503 Slow Down")

    monkeypatch.setattr(DeltaLedger, "look", away)
    assert live_jobs(job.spec) == []
    with pytest.raises(OSError, match="503 Slow Down"):
        tell_to_stop(job.spec)
    assert Path(job.stopped_file).exists()


@pytest.mark.parametrize("is_published", [True, False])
def test_the_last_job_of_a_run_that_is_over_is_not_told_of(
    job: Job, is_published: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It died after its last record, and left no result; its cluster is gone by now."""
    planned = make_plan(job.spec)
    if is_published:
        run_attempt(planned)
        Path(f"{planned.run.attempt(2)}/result.json").unlink()
        publish_planned(planned)
    else:
        give_up(job.spec, planned.run)

    def attach(asked: Job) -> None:
        raise Unreachable("cluster.address: gone")

    monkeypatch.setattr(stopping, "cluster_of", lambda _: SimpleNamespace(attach=attach))
    told = tell_to_stop(job.spec)
    assert (told.stopped, told.unseen, told.errors) == ([], [], [])
    assert live_jobs(job.spec) == []
    assert Path(job.stopped_file).exists(), "it is told all the same"


def test_the_last_attempt_is_stopped_while_its_runs_cluster_is_there(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is deleted with whichever attempt of the run is stopped first."""
    planned = make_plan(job.spec)
    second = new_job(planned, left_to_do(planned, tried=False), job.attempt + 1)
    clusters, stopped = {job.run_id}, list[str]()

    def attach(asked: Job) -> SimpleNamespace | None:
        is_there = asked.id == second.id and asked.run_id in clusters
        return SimpleNamespace(stop=lambda: stopped.append(asked.id)) if is_there else None

    monkeypatch.setattr(stopping, "cluster_of", lambda _: SimpleNamespace(attach=attach))
    monkeypatch.setattr(stopping, "release", lambda _, run_id: clusters.discard(run_id))
    assert [each.id for each in stop_jobs(job.spec)] == stopped == [second.id]
    assert not clusters


@pytest.mark.parametrize("state", ["failed", "succeeded"])
def test_who_is_about_to_make_another_attempt_or_to_publish_is_told_to_do_neither(
    job: Job, state: str
) -> None:
    planned = make_plan(job.spec)
    job.storage.write(job.result_file, json.dumps({"state": state}).encode())
    elsewhere = replace(Holder.of(os.getpid()), host="elsewhere")
    save_holder(planned.storage, planned.run.lease, elsewhere)
    told = tell_to_stop(job.spec)
    assert [each.id for each in told.ended] == [job.id]
    assert Path(job.stopped_file).exists()


def test_nobody_waits_for_the_next_attempt_of_a_run_whose_process_is_gone(job: Job) -> None:
    planned = make_plan(job.spec)
    job.storage.write(job.result_file, b'{"state": "failed"}')
    save_holder(
        planned.storage, planned.run.lease, replace(Holder.of(os.getpid()), host="elsewhere")
    )
    os.utime(planned.run.lease, (1, 1))
    assert tell_to_stop(job.spec).ended == []
    assert not Path(job.stopped_file).exists()


@pytest.mark.parametrize("is_own", [True, False])
def test_a_cancelled_flow_run_stops_no_job_that_another_one_follows(job: Job, is_own: bool) -> None:
    """As where somebody has called it for an output that is being written, and takes it back."""
    planned = make_plan(job.spec, RunOptions(flow_runs=("nightly", "parent")))
    planned.hold()
    told = tell_to_stop(job.spec, "parent" if is_own else "other")
    assert [each.id for each in told.unseen] == ([job.id] if is_own else [])
    assert Path(job.stopped_file).exists() is is_own
    assert [each.id for each in tell_to_stop(job.spec).unseen] == [job.id]


def test_a_job_of_which_nobody_has_said_whose_it_is_is_stopped(job: Job) -> None:
    assert [each.id for each in tell_to_stop(job.spec, "any").unseen] == [job.id]


def test_the_first_job_of_a_cut_run_is_the_same_flow_runs(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    spec = classify_spec(tmp_path, stages={"preprocess": {"materialize": True}})
    first = plan_materializing_run(make_plan(spec, RunOptions(flow_runs=("nightly",))))
    assert first
    first.hold()
    job = new_job(first, left_to_do(first, tried=False), 1)
    assert tell_to_stop(spec, "other").unseen == []
    assert not Path(job.stopped_file).exists()
    assert [each.id for each in tell_to_stop(spec, "nightly").unseen] == [job.id]


@pytest.mark.parametrize("by", ["its own", "an earlier one", "one whose clock is ahead"])
def test_between_the_two_jobs_of_a_cut_run_it_is_told_to_make_no_other(
    tmp_path: Path, by: str
) -> None:
    """But by a process that has followed the first one: others make the second without a look."""
    make_inputs(tmp_path / "in")
    spec = classify_spec(tmp_path, stages={"preprocess": {"materialize": True}})
    main = make_plan(spec)
    first = plan_materializing_run(main)
    assert first
    job = new_job(first, left_to_do(first, tried=False), 1)
    elsewhere = replace(Holder.of(os.getpid()), host="elsewhere")
    save_holder(main.storage, main.run.lease, elsewhere)
    follower_heartbeat.leave_sign(job)
    sign = json.loads(job.storage.read(job.followed_file))
    if by != "one whose clock is ahead":
        sign["host"] = elsewhere.host
        sign["at"] = elsewhere.started + (1 if by == "its own" else -1)
    job.storage.write(job.followed_file, json.dumps(sign).encode())
    job.storage.write(job.result_file, b'{"state": "succeeded"}')
    is_its_own = by == "its own"
    assert [each.id for each in tell_to_stop(spec).ended] == ([job.id] if is_its_own else [])
    assert Path(job.stopped_file).exists() is is_its_own


def test_which_job_of_a_cut_run_was_the_last_is_told_by_the_storages_clock(tmp_path: Path) -> None:
    """Whoever follows the second may have a clock that is behind that of who followed the first."""
    make_inputs(tmp_path / "in")
    spec = classify_spec(tmp_path, stages={"preprocess": {"materialize": True}})
    main = make_plan(spec)
    first = plan_materializing_run(main)
    assert first
    before = new_job(first, left_to_do(first, tried=False), 1)
    last = replace(before, spec=main.spec, run_id=main.run.run_id, stages=AFTER_CUT)
    last.save()
    save_holder(main.storage, main.run.lease, replace(Holder.of(os.getpid()), host="elsewhere"))
    for seconds, job in ((0, before), (60, last)):
        sign = {"at": time.time() - 2 * seconds, "host": "elsewhere", "pid": os.getpid()}
        job.storage.write(job.followed_file, json.dumps(sign).encode())
        os.utime(job.followed_file, (time.time() + seconds,) * 2)
        job.storage.write(job.result_file, b'{"state": "succeeded"}')
    assert [each.run_id for each in tell_to_stop(spec).ended] == [main.run.run_id]
