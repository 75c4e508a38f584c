"""A run that is cut into two jobs: the same rows, and nothing of the first job done twice."""

import base64
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import attempts
from flows.batch_inference import batch_inference
from flows.preview import preview
from flows.redrive import redrive
from flows.stage_tasks import run_stages
from tasks.attempt import Attempt
from tasks.errors import ErrorBudgetExceeded, RunStopped, StageFailed
from tasks.kinds.sources import ParquetSource
from tasks.materializing_run import plan_materializing_run
from tasks.plan import PlannedRun, make_plan
from tasks.published import rows_set_aside
from tasks.ray_job.counts import BEFORE_CUT, Counts, Report
from tasks.ray_job.job import Job
from tasks.ray_job.progress import Progress
from tasks.run import attempts_in, left_to_do, next_attempt
from tasks.running_jobs import unfinished_jobs
from tasks.spec import BatchInferenceSpec
from tasks.timeouts import Deadline, stuck_stage
from tests.flows.conftest import published, spec_of
from tests.flows.test_live_stages import act_before_the_job, stage_runs

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

HANDED = 100
STEPPED = [each for each in range(1000) if each % 50 != 3]
"""Rows that the step takes."""


def logs(folder: Path, name: str) -> str:
    """A folder that user code writes its rows to."""
    (folder.parent / name).mkdir(exist_ok=True)
    return str(folder.parent / name)


def handed(folder: Path, name: str) -> int:
    """Rows that user code was handed in batches that came back."""
    files = (folder.parent / name).glob("*.log")
    return sum(int(line) for file in files for line in file.read_text().split())


def cut_spec(
    folder: Path,
    out: str = "out",
    step: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    materialize: bool = True,
    **changes: Any,
) -> BatchInferenceSpec:
    """Prepares and scores the numbers; their logs are `steps` and `models`."""
    read = {"rows_per_batch": 50, "max_workers": 1}
    kept = {"materialize": materialize, "path": str(folder.parent / "kept"), "max_workers": 1}
    given: dict[str, Any] = {
        "steps": [
            {
                "kind": "python",
                "function": "cutting:Prepare",
                "with_row_ids": True,
                "init": {"folder": logs(folder, "steps"), **(step or {})},
            }
        ],
        "model": {
            "kind": "python",
            "class": "cutting:Score",
            "init": {"folder": logs(folder, "models"), **(model or {})},
        },
        "sink": {"kind": "parquet", "path": str(folder.parent / out), "keep_columns": ["id", "x"]},
        "stages": {"read": read, "preprocess": kept, "write": {"max_workers": 1}},
        "errors": {"max_rejected_fraction": 0.1},
        **changes,
    }
    return spec_of(folder, **given)


def aside(spec: BatchInferenceSpec) -> list[tuple[Any, ...]]:
    """What was set aside, and why."""
    names = ("source", "row", "stage", "error_type", "error_message", "input_json")
    return sorted(tuple(row[name] for name in names) for row in rows_set_aside(spec))


def states(since: float) -> dict[str, str]:
    """The stages that Prefect shows of a first job, and how they stand."""
    runs = stage_runs(since, BEFORE_CUT)
    return {name: run.state.type.value for name, run in runs.items()}


def test_what_is_published_is_as_without_the_cut(numbers: Path) -> None:
    whole = batch_inference(cut_spec(numbers, "whole", materialize=False))
    cut = batch_inference(cut_spec(numbers, "cut"))
    assert published(cut_spec(numbers, "cut")) == published(cut_spec(numbers, "whole"))
    assert aside(cut_spec(numbers, "cut")) == aside(cut_spec(numbers, "whole"))
    assert min(cut["rows"].values()) > 0
    assert cut["rows"] == whole["rows"]
    counts = ("rows", "rejected", "filtered")
    for stage, figures in whole["stages"].items():
        assert {n: cut["stages"][stage][n] for n in counts} == {n: figures[n] for n in counts}
    assert cut["stages"]["preprocess"]["seconds"] > 0
    assert (cut["attempts"], cut["redone_rows"]) == (2, 0)
    assert cut["held"]["cpu_hours"] > 0
    (page,) = Path(f"{cut_spec(numbers, 'cut').sink.path}.state/runs").glob("*/report.md")
    timeline = page.read_text().split("data:image/svg+xml;base64,")[1].split('"')[0]
    words = base64.b64decode(timeline).decode()
    assert "attempt 1 of read and preprocess" in words
    assert "attempt 1 of infer and write" in words


def test_the_next_model_takes_what_was_kept(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch_inference(cut_spec(numbers))
    prepared = handed(numbers, "steps")
    monkeypatch.delattr(ParquetSource, "read")
    report = batch_inference(cut_spec(numbers, "other", model={"factor": 3.0}))
    assert handed(numbers, "steps") == prepared
    rows = published(cut_spec(numbers, "other"))
    assert [row["score"] for row in rows] == [3.0 * row["id"] + 1 for row in rows]
    assert report["rows"]["written"] == len(rows) == len(published(cut_spec(numbers)))
    assert report["stages"]["preprocess"]["seconds"] == 0


def test_each_job_is_retried_on_its_own(numbers: Path) -> None:
    retries, errors = {"max_attempts": 2}, {"max_rejected_fraction": 0.5}
    step, model = {"dies": 520}, {"dies": 720}
    spec = cut_spec(numbers, step=step, model=model, retries=retries, errors=errors)
    report = batch_inference(spec)
    assert report["attempts"] == 4
    assert handed(numbers, "steps") == len(STEPPED)
    whole = batch_inference(cut_spec(numbers, "whole", materialize=False))
    assert published(spec) == published(cut_spec(numbers, "whole"))
    assert report["rows"] == whole["rows"]


def test_a_run_that_is_stopped_between_its_two_jobs_makes_no_second(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = cut_spec(numbers)

    def stop_first(planned: PlannedRun) -> None:
        for job_file in attempts_in(planned.storage, planned.run):
            planned.storage.write(job_file.replace("job.json", "stopped"), b"")

    with monkeypatch.context() as between:
        between.setattr(attempts, "end_cluster", stop_first)
        with pytest.raises(RunStopped, match="run again to go on"):
            batch_inference(spec)
    assert not handed(numbers, "models")
    batch_inference(spec)
    assert handed(numbers, "steps") == len(STEPPED)


def test_a_first_job_that_was_taken_for_lost_is_done_once_another_process_has_published(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which has told it to end."""
    spec, jobs = cut_spec(numbers), list[Job]()

    def overtake(attempt: Attempt, deadline: Deadline) -> None:
        if not jobs:
            jobs.append(attempt.job)
            assert batch_inference(spec)["published"]
            assert Path(attempt.job.stopped_file).exists()
        run_stages(attempt, deadline)

    monkeypatch.setattr(attempts, "run_stages", overtake)
    assert batch_inference(spec)["version"] == 1
    assert handed(numbers, "steps") == len(STEPPED)


def test_a_failing_first_job_turns_preprocess_red_and_the_next_run_goes_on(numbers: Path) -> None:
    since = time.time()
    spec = cut_spec(numbers, step={"dies": 520})
    with pytest.raises(StageFailed, match="the disk of the step is gone") as caught:
        batch_inference(spec)
    assert caught.value.stage == "preprocess"
    assert states(since) == {"read": "CANCELLED", "preprocess": "FAILED"}
    page = next(Path(f"{spec.sink.path}.state/runs").glob("*/report.md")).read_text()
    assert "attempts of the run so far: 1" in page
    batch_inference(spec)
    assert handed(numbers, "steps") == len(STEPPED)


def test_stages_before_the_cut_are_done_before_those_after_it_begin(numbers: Path) -> None:
    since = time.time()
    batch_inference(cut_spec(numbers))
    runs = stage_runs(since)
    assert {run.state.type.value for run in runs.values()} == {"COMPLETED"}
    assert len(runs) == 4
    before = max(runs[stage].end_time for stage in ("read", "preprocess"))
    assert before < min(runs[stage].start_time for stage in ("infer", "write"))
    since = time.time()
    batch_inference(cut_spec(numbers, "other", model={"factor": 3.0}))
    assert "kept by an earlier job" in stage_runs(since)["read"].state.message


def test_an_unfinished_run_can_be_cut_and_joined_again(numbers: Path) -> None:
    model = {"dies": 720}
    with pytest.raises(StageFailed, match="the device is gone"):
        batch_inference(cut_spec(numbers, model=model, materialize=False))
    predicted = handed(numbers, "models")
    strict = {"max_rejected_fraction": 0.03}
    with pytest.raises(ErrorBudgetExceeded, match="cannot be scored"):
        batch_inference(cut_spec(numbers, model=model, errors=strict))
    prepared = handed(numbers, "steps")
    report = batch_inference(cut_spec(numbers, model=model))
    assert report["rows"]["rejected"] > 0.03 * report["rows"]["read"]
    assert report["resumed_rows"] > 0
    assert handed(numbers, "steps") == prepared, "what was kept is not prepared again"
    reference = {"folder": logs(numbers, "reference")}
    batch_inference(cut_spec(numbers, "whole", model=reference, materialize=False))
    assert handed(numbers, "models") == handed(numbers, "reference") > predicted
    assert published(cut_spec(numbers)) == published(cut_spec(numbers, "whole"))


def test_rows_that_nobody_kept_since_they_were_recorded_are_prepared_when_they_count_no_more(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in numbers.glob("*.parquet"):  # without rows that are set aside, and tried again
        rows = pq.read_table(file)
        taken = [each % 50 != 3 and each % 40 != 9 for each in rows["id"].to_pylist()]
        pq.write_table(rows.filter(pa.array(taken)), file)
    with pytest.raises(StageFailed, match="the device is gone"):
        batch_inference(cut_spec(numbers, model={"dies": 720}, materialize=False))
    (run,) = (numbers.parent / "out.state" / "runs").iterdir()
    records = "".join(each.read_text() for each in (run / "records").iterdir())
    recorded = [each for each in (run / "staging").glob("*.parquet") if each.name in records]
    # The last one's shard is not done, and so prepared whole; and what has no record is not missed.
    first = min(recorded, key=lambda file: file.stat().st_mtime_ns)

    def lose_one(planned: PlannedRun) -> None:
        first.unlink(missing_ok=True)

    monkeypatch.setattr(attempts, "end_cluster", lose_one)
    report = batch_inference(cut_spec(numbers, model={"dies": 720}, retries={"max_attempts": 2}))
    assert report["attempts"] == 4
    assert report["resumed_rows"] > 0
    batch_inference(cut_spec(numbers, "whole", materialize=False))
    assert published(cut_spec(numbers)) == published(cut_spec(numbers, "whole"))


def test_only_what_is_new_or_changed_is_prepared(numbers: Path) -> None:
    batch_inference(cut_spec(numbers))
    prepared = handed(numbers, "steps")
    (numbers / "3.parquet").write_bytes((numbers / "4.parquet").read_bytes())
    batch_inference(cut_spec(numbers, "other", model={"factor": 3.0}))
    assert handed(numbers, "steps") == prepared + 98
    ids = {row["id"] for row in published(cut_spec(numbers, "other"))}
    assert ids.isdisjoint(range(300, 400))
    other_step = cut_spec(numbers, "third", step={"seconds": 0.001})
    batch_inference(other_step)
    assert handed(numbers, "steps") > 2 * prepared, "other steps take nothing from these"


def test_a_storage_that_is_away_as_kept_rows_are_looked_for_is_waited_for(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([ConnectionError("no route to it")])

    def look(planned: PlannedRun) -> Any:
        if error := next(looks, None):
            raise error
        return plan_materializing_run(planned)

    monkeypatch.setattr(attempts, "plan_materializing_run", look)
    assert batch_inference(cut_spec(numbers))["published"]
    assert next(looks, None) is None


def test_what_was_kept_and_is_gone_is_prepared_again(numbers: Path) -> None:
    batch_inference(cut_spec(numbers))
    prepared = handed(numbers, "steps")
    batches = (numbers.parent / "kept").glob("**/*.batch")
    next(each for each in batches if each.stat().st_size > 1000).unlink()
    batch_inference(cut_spec(numbers, "other", model={"factor": 3.0}))
    again = handed(numbers, "steps") - prepared
    assert again in (98, 2 * 98), "the file that its rows are of, or both of them"
    assert len(published(cut_spec(numbers, "other"))) == len(published(cut_spec(numbers)))


def test_an_input_that_changes_while_it_is_prepared_is_planned_anew(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(_: Any) -> None:
        (numbers / "8.parquet").write_bytes((numbers / "4.parquet").read_bytes())

    errors = {"max_rejected_fraction": 0.5}
    spec = cut_spec(numbers, retries={"max_attempts": 2}, errors=errors)
    act_before_the_job(monkeypatch, change)
    assert batch_inference(spec)["published"]
    assert 820 not in {row["id"] for row in published(spec)}


def test_who_looks_for_jobs_finds_those_of_both_halves_and_no_other_outputs(numbers: Path) -> None:
    spec, other = cut_spec(numbers), cut_spec(numbers, "other", model={"factor": 3.0})
    jobs = {}
    for each in (spec, other):
        main = make_plan(each)
        first = plan_materializing_run(main)
        assert first
        jobs[each.sink.path] = next_attempt(first, left_to_do(first, tried=False)).job.id
        assert main.run.run_id not in jobs[each.sink.path]
    assert [job.id for job in unfinished_jobs(spec)] == [jobs[spec.sink.path]]
    assert [job.id for job in unfinished_jobs(other)] == [jobs[other.sink.path]]


def test_a_first_job_that_hangs_hangs_in_a_stage_of_its_own(numbers: Path) -> None:
    first = plan_materializing_run(make_plan(cut_spec(numbers)))
    assert first
    job = next_attempt(first, left_to_do(first, tried=False)).job
    counts = Counts()
    for stage, rows in (("read", 100), ("preprocess", 50), ("write", 50)):
        counts.add(Report(stage, rows, 0, 0, 0.1, parents=rows))
    Progress(job, counts.snapshot, num_reads=1).write("running", counts.snapshot())
    assert stuck_stage(json.loads(job.storage.read(job.progress_file))) == "preprocess"


def test_what_both_jobs_have_set_aside_is_redriven_in_one(numbers: Path) -> None:
    folder = numbers.parent / "kept"

    def refusing(step: int | None, model: list[float]) -> BatchInferenceSpec:
        function, refuses = {"kind": "python", "function": "cutting:Refuse"}, {"refuses": model}
        return spec_of(
            numbers,
            steps=[{**function, "init": {"refused": step}}],
            model={"kind": "python", "class": "predictors:Picky", "init": refuses},
            stages={"preprocess": {"materialize": True, "path": str(folder)}},
        )

    def kept() -> set[Path]:
        return {each for each in folder.rglob("*") if each.is_file()}

    mended = refusing(None, [])
    assert batch_inference(refusing(305, [777.0]))["attempts"] == 2
    assert [row[1:3] for row in aside(mended)] == [(5, "preprocess"), (77, "infer")]
    before = kept()
    report = redrive(mended)
    assert (report["rows"]["written"], report["attempts"]) == (2, 1)
    assert kept() == before != set()
    assert aside(mended) == []
    assert [row["id"] for row in published(mended)] == list(range(1000))


def test_limits_and_previews_are_one_job(numbers: Path) -> None:
    spec = spec_of(numbers, stages={"preprocess": {"materialize": True}})
    assert preview(spec, rows=20)["rows"]
    assert batch_inference(spec, limit=20)["rows"]["read"] == 20
    assert not Path(f"{spec.sink.path}.state/prepared").exists()


def killed_once(folder: Path, seen: list[int]) -> threading.Thread:
    """SIGKILL the first job's first driver as soon as its step has worked on some rows.

    Args:
        folder: of the inputs.
        seen: gets how many rows the step had been handed by then.
    """

    def wait_and_kill() -> None:
        while handed(folder, "steps") < HANDED:
            time.sleep(0.05)
        (driver,) = (folder.parent / "kept").glob("**/attempts/1/driver.json")
        seen.append(handed(folder, "steps"))
        os.kill(json.loads(driver.read_text())["pid"], signal.SIGKILL)
        (folder.parent / "steps" / "go").touch()

    thread = threading.Thread(target=wait_and_kill)
    thread.start()
    return thread


@pytest.mark.ray
def test_the_first_job_is_killed_and_nothing_that_was_kept_is_prepared_again(
    numbers: Path, ray_address: str
) -> None:
    for file in sorted(numbers.iterdir())[3:]:
        file.unlink()
    stepped = [each for each in STEPPED if each < 300]
    spec = cut_spec(
        numbers,
        step={"waits": HANDED},
        cluster={"kind": "local", "address": ray_address},
        retries={"max_attempts": 2},
        errors={"max_rejected_fraction": 0.5},
    )
    seen: list[int] = []
    killer = killed_once(numbers, seen)
    report = batch_inference(spec)
    killer.join()
    assert report["attempts"] == 3
    (before_kill,) = seen
    assert before_kill < len(stepped) <= handed(numbers, "steps")
    assert handed(numbers, "steps") < 2 * len(stepped), "what was kept is not prepared again"
    batch_inference(cut_spec(numbers, "whole", materialize=False))
    assert published(spec) == published(cut_spec(numbers, "whole"))
    assert aside(spec) == aside(cut_spec(numbers, "whole"))
