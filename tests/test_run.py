"""Which attempt comes next: the one that runs, or a new one."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks import run
from tasks.attempt import FOLLOWED
from tasks.clusters.driver import log_file
from tasks.clusters.ray_jobs import RayJobs
from tasks.errors import InvalidSpec, RunStopped, Unreachable
from tasks.kinds.clusters import AnyCluster, InlineCluster, RayJobsCluster
from tasks.outputs import name_of_run
from tasks.plan import make_plan
from tasks.protocol.storage import FsspecStorage
from tasks.ray_job.job import Job, load_job
from tasks.resources import Resources
from tasks.run_options import RunOptions
from tasks.spec_parts import Timeouts
from tests.reporting import classify_spec, make_inputs
from tests.s3_server import S3


@dataclass
class Lingering:
    """Stands for a cluster and the one job on it, which lives until it is stopped."""

    is_there: bool = True

    def attach(self, job: Job) -> "Lingering | None":
        return self if self.is_there else None

    def was_started(self, job: Job) -> bool:
        return True

    def stop(self) -> None:
        self.is_there = False


def test_a_job_that_lives_on_with_its_result_answers_for_no_later_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    cluster = Lingering()
    monkeypatch.setattr(run, "cluster_of", lambda spec: cluster)
    gap = run.left_to_do(planned, tried=False)
    first = run.next_attempt(planned, gap).job
    assert run.next_attempt(planned, gap).job.attempt == first.attempt == 1
    planned.storage.write(first.result_file, b"{}")
    assert run.next_attempt(planned, gap).job.attempt == 2
    assert not cluster.is_there


class Deaf(Lingering):
    """A cluster that takes note, and whose job does not end."""

    def stop(self) -> None:
        self.was_asked = True


def test_a_job_in_which_nothing_moves_is_not_followed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    cluster = Deaf()
    monkeypatch.setattr(run, "cluster_of", lambda spec: cluster)
    gap = run.left_to_do(planned, tried=False)
    first = run.next_attempt(planned, gap)
    assert run.next_attempt(planned, gap, after=first).job.id == first.job.id
    first.has_stalled = True
    second = run.next_attempt(planned, gap, after=first)
    assert second.job.attempt == 2
    assert cluster.was_asked
    sign = json.loads(planned.storage.read(first.job.followed_file))
    assert sign["has_left"], "should it move again, it ends"
    assert run.next_attempt(planned, gap, after=second).job.id == second.job.id


class NeverStarted(Lingering):
    """A cluster that has not taken the job."""

    def attach(self, job: Job) -> Lingering | None:
        return None

    def was_started(self, job: Job) -> bool:
        return False


@pytest.mark.parametrize(
    "changes",
    [{"resources": Resources(num_cpus=2)}, {"timeouts": Timeouts(run_seconds=9)}, {}],
    ids=["resources", "timeouts", "nothing"],
)
def test_a_job_that_was_never_started_is_what_is_asked_for_now(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    monkeypatch.setattr(run, "cluster_of", lambda spec: NeverStarted())
    gap = run.left_to_do(planned, tried=False)
    first = run.next_attempt(planned, gap).job
    mended = replace(planned, spec=planned.spec.model_copy(update=changes))
    second = run.next_attempt(mended, gap).job
    assert second.attempt == (2 if changes else 1)
    for name, value in changes.items():
        assert getattr(second.spec, name) == value != getattr(first.spec, name)


def test_no_attempt_is_made_with_other_code_than_was_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the user's own, who mends it while the run tries again."""
    make_inputs(tmp_path / "in")
    monkeypatch.syspath_prepend(tmp_path)
    code = tmp_path / "mended_meanwhile.py"
    code.write_text("def predict(batch):\n    return {'y': batch['id']}\n")
    planned = make_plan(
        classify_spec(tmp_path, model={"kind": "python", "class": "mended_meanwhile:predict"})
    )
    monkeypatch.setattr(run, "cluster_of", lambda spec: Lingering())
    gap = run.left_to_do(planned, tried=False)
    job = run.next_attempt(planned, gap).job
    code.write_text("def predict(batch):\n    return {'y': -batch['id']}\n")
    assert run.next_attempt(planned, gap).job.attempt == 1, "it is followed"
    planned.storage.write(job.result_file, b"{}")
    with pytest.raises(InvalidSpec, match="has other code than when the run was planned"):
        run.next_attempt(planned, gap)


def test_a_job_that_was_never_started_has_todays_limit_of_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block's may change, and the spec stay as it is."""
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    monkeypatch.setattr(run, "cluster_of", lambda spec: NeverStarted())
    gap, found = run.left_to_do(planned, tried=False), list[tuple[int, float | None]]()
    for limit in (8.0, 8.0, 2.0):
        monkeypatch.setattr(run, "max_gpus_of", lambda _, limit=limit: limit)
        job = run.next_attempt(planned, gap).job
        found.append((job.attempt, job.max_gpus))
    assert found == [(1, 8.0), (1, 8.0), (2, 2.0)]


@pytest.mark.parametrize("answers", [True, False])
def test_a_job_elsewhere_is_stopped_before_another_starts_here(
    answers: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in")
    there, stopped = RayJobsCluster(address="http://there:8265"), list[str]()

    class Elsewhere(Lingering):
        """The cluster that the first job is on."""

        def attach(self, job: Job) -> Lingering | None:
            if not answers:
                raise Unreachable("no route")
            return super().attach(job)

    def cluster_of(cluster: AnyCluster) -> Lingering:
        stopped.append(cluster.kind)
        return Elsewhere()

    monkeypatch.setattr("tasks.clusters.stopping.cluster_of", cluster_of)
    planned = make_plan(classify_spec(tmp_path))
    gap = run.left_to_do(planned, tried=False)
    moved = replace(planned, spec=planned.spec.model_copy(update={"cluster": there}))
    first = run.new_job(moved, gap, 1)
    second = run.next_attempt(planned, gap)
    assert (second.job.attempt, stopped) == (2, ["ray_jobs"])
    assert first.storage.stat(first.stopped_file), "it stops itself where nobody answers for it"
    assert isinstance(second.job.spec.cluster, InlineCluster)


def test_runs_of_two_outputs_are_two_though_all_else_is_the_same(tmp_path: Path) -> None:
    """Jobs and clusters are named after runs: one would be taken for the other's."""
    make_inputs(tmp_path / "in")
    spec = classify_spec(tmp_path)
    there = spec.sink.model_copy(update={"path": str(tmp_path / "elsewhere")})
    plans = [make_plan(each) for each in (spec, spec, spec.model_copy(update={"sink": there}))]
    first, again, other = (each.run.run_id for each in plans)
    assert first == again != other


def test_jobs_of_one_path_on_two_stores_have_names_of_their_own(tmp_path: Path, s3: S3) -> None:
    """On a cluster that both use, the second would follow the first's job, and later stop it."""
    make_inputs(tmp_path / "in")
    sink = {"kind": "parquet", "path": s3.url("two-stores/out")}
    addresses = [s3.endpoint_url, s3.endpoint_url.replace("127.0.0.1", "localhost")]
    options = [{"endpoint_url": addresses[0]}, {"client_kwargs": {"endpoint_url": addresses[1]}}]
    specs = [classify_spec(tmp_path, sink={**sink, "storage_options": each}) for each in options]
    first, other = (make_plan(spec, save=False) for spec in specs)
    assert first.run.run_id == other.run.run_id, "else this test shows nothing"
    jobs = [run.new_job(each, run.left_to_do(each, tried=False), 1) for each in (first, other)]
    assert jobs[0].id != jobs[1].id
    assert log_file(jobs[0]) != log_file(jobs[1])
    assert [job.name_of_run for job in jobs] == [first.name, other.name]
    # Whoever reaches the same store by another address follows what was started all the same.
    assert load_job(first.storage.read(f"{jobs[0].folder}/job.json")).id == jobs[1].id


def test_a_job_knows_of_the_inputs_of_other_times(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path), RunOptions(timed_inputs=("/in/[0-9]",)))
    job = run.new_job(planned, run.left_to_do(planned, tried=False), 1)
    assert load_job(job.storage.read(f"{job.folder}/job.json")) == job
    assert job.timed_inputs == ("/in/[0-9]",)


def test_a_job_that_an_earlier_release_has_stored_keeps_its_name(tmp_path: Path, s3: S3) -> None:
    make_inputs(tmp_path / "in")
    place = {"path": s3.url("earlier/out"), "storage_options": s3.storage_options}
    planned = make_plan(classify_spec(tmp_path, sink={"kind": "parquet", **place}), save=False)
    job = run.new_job(planned, run.left_to_do(planned, tried=False), 1)
    fields = json.loads(job.storage.read(f"{job.folder}/job.json"))
    del fields["run_name"]
    assert load_job(json.dumps(fields).encode()).id == f"{planned.run.run_id}-1"


def test_where_no_store_is_named_the_path_names_the_job(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    job = run.new_job(planned, run.left_to_do(planned, tried=False), 1)
    assert job.id == f"{planned.run.run_id}-1"
    on_aws = classify_spec(tmp_path, sink={"kind": "parquet", "path": "s3://bucket/out"})
    assert name_of_run(on_aws, "run") == "run"


def test_a_name_that_the_cluster_remembers_is_given_to_no_other_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its output was deleted, and the same run is made anew: to submit it would be refused."""
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    ids = [f"{planned.run.run_id}-{number}" for number in range(1, 4)]
    known = dict(zip(ids, ["FAILED", "SUCCEEDED", "RUNNING"], strict=True))
    api: Any = SimpleNamespace(status=known.get)
    monkeypatch.setattr(run, "cluster_of", lambda _: RayJobs(api))
    gap = run.left_to_do(planned, tried=False)
    first = run.next_attempt(planned, gap).job
    assert first.attempt == 3, "who follows another's job of a name follows one that lives"
    first.storage.write(first.result_file, b"{}")
    known[first.id] = "SUCCEEDED"
    assert run.next_attempt(planned, gap).job.attempt == 4


def test_a_job_whose_submission_could_not_be_noted_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    job = run.new_job(planned, run.left_to_do(planned, tried=False), 1)
    sent = list[str]()
    api: Any = SimpleNamespace(
        upload=lambda folder, excludes: "gcs://code.zip",
        submit=lambda submission_id, *_: sent.append(submission_id),
        status=lambda submission_id: "RUNNING" if submission_id in sent else None,
        shown="http://there",
    )

    def refuse(storage: FsspecStorage, path: str, data: bytes) -> None:
        raise ConnectionError("no route")

    with monkeypatch.context() as away:
        away.setattr(FsspecStorage, "write", refuse)
        with pytest.raises(Unreachable, match=r"did not take .*submitted\.json"):
            RayJobs(api).start(job)
    assert RayJobs(api).attach(job)
    assert sent == [job.id]


class Away(Lingering):
    """A cluster that does not answer until somebody has told the job to stop."""

    def attach(self, job: Job) -> Lingering | None:
        if not stop_jobs_of(job):
            return None
        raise Unreachable("cluster.address: away")


def stop_jobs_of(job: Job) -> bool:
    """Tell a job to stop, as `cancel` does; whether it had not been told before."""
    if job.storage.stat(job.stopped_file):
        return False
    job.storage.write(job.stopped_file, b"")
    return True


@pytest.mark.parametrize("is_followed", [True, False])
def test_a_run_that_is_cancelled_while_its_cluster_is_away_starts_no_other_job(
    is_followed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster comes back without the job that it had: as a rule another one follows."""
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    monkeypatch.setattr(run, "cluster_of", lambda spec: Lingering())
    gap = run.left_to_do(planned, tried=False)
    first = run.next_attempt(planned, gap)
    monkeypatch.setattr(run, "cluster_of", lambda spec: Away())
    monkeypatch.setattr("tasks.timeouts.backoff_seconds", lambda tried: 0.0)
    with pytest.raises(RunStopped):
        run.next_attempt(planned, gap, after=first if is_followed else None)
    assert len(run.attempts_in(planned.storage, planned.run)) == 1
    run.forget_old_word(planned)
    assert not Path(first.job.stopped_file).exists(), "who runs it again means it"


def test_a_run_that_is_cancelled_while_its_next_job_is_made_starts_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    monkeypatch.setattr(run, "cluster_of", lambda spec: Lingering(is_there=False))
    gap = run.left_to_do(planned, tried=False)
    first = run.next_attempt(planned, gap)
    make = run.new_job

    def cancelled_meanwhile(*given: Any) -> Job:
        assert stop_jobs_of(first.job)
        return make(*given)

    monkeypatch.setattr(run, "new_job", cancelled_meanwhile)
    with pytest.raises(RunStopped):
        run.next_attempt(planned, gap, after=first)


def test_a_plan_for_which_there_is_no_room_is_told_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in")
    store = FsspecStorage.write

    def write(storage: FsspecStorage, path: str, data: bytes) -> None:
        if "/plans/" in path:
            raise OSError(28, "No space left on device", path)
        store(storage, path, data)

    monkeypatch.setattr(FsspecStorage, "write", write)
    with pytest.raises(
        Unreachable, match=r"^sink\.path: the disk is full, free some space: .*/plans/"
    ):
        make_plan(classify_spec(tmp_path))


def test_a_process_keeps_no_attempts_but_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may run hundreds of jobs, each with all that its plan has pinned."""
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    monkeypatch.setattr(run, "cluster_of", lambda spec: Lingering())
    gap = run.left_to_do(planned, tried=False)
    attempts = [run.next_attempt(planned, gap) for _ in range(4)]
    assert attempts[-2:] == FOLLOWED
