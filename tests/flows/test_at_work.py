"""Which run a call is at, where that is another one by the time that it ends."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import attempts
from flows.batch_inference import batch_inference
from flows.stage_tasks import run_stages
from tasks import lease
from tasks.attempt import Attempt
from tasks.errors import InputChanged, InvalidSpec
from tasks.lease import holder_of
from tasks.ledgers import ledger_of
from tasks.lineage import publish_run
from tasks.outputs import output_of
from tasks.plan import PlannedRun, make_plan
from tasks.protocol.layout import RunFolder
from tasks.publish import publish_planned
from tasks.spec import BatchInferenceSpec
from tasks.timeouts import Deadline
from tests.flows.conftest import published, spec_of
from tests.flows.jobs_cluster import await_that
from tests.reporting import run_attempt

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


@pytest.fixture
def overtaken(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> BatchInferenceSpec:
    """A run that finds an input changed, and its rows published by another process that follows it.

    What is left then, one new file, is another run's.
    """
    spec = spec_of(numbers, retries={"max_attempts": 2})

    def change(attempt: Attempt, deadline: Deadline) -> None:
        if ledger_of(spec).look().version:
            return run_stages(attempt, deadline)
        Path(attempt.job.result_file).write_text("{}")
        planned = make_plan(spec)
        run_attempt(planned)
        publish_planned(planned)
        pq.write_table(pa.table({"id": [1000], "x": [1000.0]}), numbers / "new.parquet")
        raise InputChanged("it changed")

    monkeypatch.setattr(attempts, "run_stages", change)
    monkeypatch.setattr(attempts, "backoff_seconds", lambda _: 0.0)
    return spec


def left_run(spec: BatchInferenceSpec) -> RunFolder:
    """The one that is not published."""
    storage, output = output_of(spec)
    (run_id,) = storage.folders(output.runs) - ledger_of(spec).look().run_ids
    return output.run(run_id)


def test_the_run_that_fails_is_the_one_that_is_reported_and_let_go_of(
    overtaken: BatchInferenceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hold_back(planned: PlannedRun) -> int:
        raise InvalidSpec("not that")

    monkeypatch.setattr(attempts, "publish_run", hold_back)
    with pytest.raises(InvalidSpec) as caught:
        batch_inference(overtaken)
    run = left_run(overtaken)
    assert caught.value.report == run.page
    assert "not that" in Path(run.page).read_text()
    assert Path(run.lease).exists()
    assert holder_of(output_of(overtaken)[0], run, or_own=True) is None


def test_the_run_that_is_published_is_the_one_that_is_held(
    overtaken: BatchInferenceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To judge its rows may take minutes, in which no job says that somebody is at work on it."""

    def publish(planned: PlannedRun) -> int:
        Path(planned.run.lease).unlink()
        await_that(Path(planned.run.lease).exists, "nobody holds the run")
        return publish_run(planned)

    monkeypatch.setattr(attempts, "publish_run", publish)
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.05)
    assert batch_inference(overtaken)["version"] == 2
    assert len(published(overtaken)) == 1001


def test_a_run_that_another_process_has_published_is_done_and_was_stopped_by_nobody(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for lost: whoever publishes tells jobs that have left no result to end."""
    spec = spec_of(numbers)

    def overtake(attempt: Attempt, deadline: Deadline) -> None:
        planned = make_plan(spec)
        run_attempt(planned)
        publish_planned(planned)
        assert Path(attempt.job.stopped_file).exists()
        run_stages(attempt, deadline)

    monkeypatch.setattr(attempts, "run_stages", overtake)
    report = batch_inference(spec)
    assert (report["published"], report["version"]) == (True, 1)
    assert len(published(spec)) == 1000
