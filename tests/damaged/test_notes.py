"""Small files that a run or a search can do without, damaged."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.errors import InvalidSpec, Orphaned
from tasks.job_look import Look
from tasks.plan import PlannedRun, make_plan
from tasks.ray_job.batch_limits import halvings_of, is_short
from tasks.ray_job.follower_heartbeat import Followed, leave_sign
from tasks.ray_job.job import Job
from tasks.ray_job.runtimes import runtimes_of
from tasks.run import left_to_do, new_job
from tasks.running_jobs import tell_to_stop
from tasks.searching.index import IndexPlace
from tests.damaged.states import CONTENTS
from tests.reporting import classify_spec, make_inputs

WAYS = pytest.mark.parametrize("damaged", CONTENTS.values(), ids=CONTENTS.keys())
Damaged = Callable[[bytes], bytes]


@pytest.fixture
def planned(tmp_path: Path) -> PlannedRun:
    make_inputs(tmp_path / "in", files=1)
    return make_plan(classify_spec(tmp_path))


@pytest.fixture
def job(planned: PlannedRun) -> Job:
    return new_job(planned, left_to_do(planned, tried=False), 1)


@WAYS
def test_what_replicas_have_noted_is_passed_over(planned: PlannedRun, damaged: Damaged) -> None:
    note = {"device": "a GPU", "halvings": 1, "run_id": "a", "at": 1.0, "used": "eager"}
    for folder in (planned.run.runtimes, f"{planned.output.batch_limits}/key"):
        content = json.dumps(note).encode()
        planned.storage.write(f"{folder}/1.json", content)
        planned.storage.write(f"{folder}/2.json", damaged(content))
    assert runtimes_of(planned.storage, planned.run) == [note]
    assert halvings_of(planned.storage, planned.output, "a") == [note]
    assert not is_short(planned.spec, planned.plan.pins["fingerprints"])


@WAYS
def test_a_damaged_sign_is_one_of_somebody_who_follows(job: Job, damaged: Damaged) -> None:
    leave_sign(job, has_left=True)
    last = job.storage.read(job.followed_file)
    job.storage.write(job.followed_file, damaged(last))
    followed = Followed(job)
    followed.check()
    job.storage.write(job.followed_file, last)
    followed.looked = 0.0
    with pytest.raises(Orphaned, match="the run that followed this job has ended"):
        followed.check()


@WAYS
def test_a_damaged_result_is_none(job: Job, damaged: Damaged) -> None:
    """Its job is gone, and is told apart from one that still runs by its process."""
    result = json.dumps({"state": "done", "error": None}).encode()
    job.storage.write(job.result_file, result)
    progress = json.dumps({"state": "running", "stages": {"read": {"rows": 1}}}).encode()
    job.storage.write(job.progress_file, progress)
    assert (Look.of(job).result, Look.of(job).stage("read")) == (json.loads(result), {"rows": 1})
    job.storage.write(job.result_file, damaged(result))
    job.storage.write(job.progress_file, damaged(progress))
    assert (Look.of(job), Look.of(job).stage("read")) == (Look(), {})
    assert [each.id for each in tell_to_stop(job.spec).ended] == [job.id]


@WAYS
def test_a_damaged_index_is_named(planned: PlannedRun, damaged: Damaged) -> None:
    place = IndexPlace(planned.spec, "embedding")
    assert place.load() is None
    planned.storage.write(f"{place.path}.json", damaged(b'{"version": 1, "files": {}}'))
    with pytest.raises(InvalidSpec, match=rf"{place.path}\.json' is not as .* Delete it"):
        place.load()


@WAYS
def test_where_the_first_of_two_jobs_lies_is_asked_for(
    planned: PlannedRun, damaged: Damaged
) -> None:
    where = json.dumps({"path": f"{planned.output.path}.other", "run_id": "a"}).encode()
    planned.storage.write(planned.run.prepared, damaged(where))
    with pytest.raises(InvalidSpec, match=rf"{planned.run.prepared}' is not as .* Delete it"):
        tell_to_stop(planned.spec)
