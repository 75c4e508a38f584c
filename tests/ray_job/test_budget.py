"""A job is stopped for rows that are set aside, and not for the same ones twice."""

from dataclasses import replace
from pathlib import Path

import pytest

from tasks.errors import ErrorBudgetExceeded
from tasks.plan import make_plan
from tasks.protocol.ids import IdRuns, as_ids
from tasks.protocol.records import Record, StagedFile, to_json
from tasks.ray_job.budget import Budget
from tasks.ray_job.counts import Counts, Report
from tasks.ray_job.job import Job
from tasks.run import left_to_do, next_attempt
from tasks.spec_parts import ErrorBudget
from tests.reporting import classify_spec, make_inputs, run_spec

ALLOWED = 20
"""Of 200 rows."""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path, errors={"max_rejected_fraction": 0.1}))
    return next_attempt(planned, left_to_do(planned, tried=False)).job


def counted(rejected: int) -> Counts:
    counts = Counts()
    counts.add(Report("read", 200, 0, 0, 1.0))
    counts.add(Report("preprocess", 200 - rejected, rejected, 0, 1.0))
    return counts


def record(job: Job, name: str, first: int, rejected: int, ok: int = 0) -> None:
    """A record of so many rows set aside, and of rows after these that are done."""
    ids = as_ids(range(first, first + rejected + ok))
    aside = StagedFile(f"{name}-aside", IdRuns.of(ids[:rejected]), 1) if rejected else None
    found = Record(name, job.plan, "", quarantine=aside, ok=IdRuns.of(ids[rejected:]))
    job.storage.write(f"{job.run.records}/{name}.json", to_json(found))


def test_who_counts_each_row_once_stops_at_once(job: Job) -> None:
    budget = Budget(job, counts_once=True)
    budget.check(counted(ALLOWED).snapshot())
    with pytest.raises(ErrorBudgetExceeded, match=r"21 of 200 rows set aside"):
        budget.check(counted(ALLOWED + 1).snapshot())


@pytest.mark.parametrize("known", [200, None])
def test_so_many_rows_stop_no_job_whatever_their_share(job: Job, known: int | None) -> None:
    errors = ErrorBudget(max_rejected_fraction=0.1, rejected_rows_always_allowed=40)
    spec = job.spec.model_copy(update={"errors": errors})
    budget = Budget(
        replace(job, spec=spec, pins={**job.pins, "known_rows": known}), counts_once=True
    )
    budget.check(counted(40).snapshot())
    both = "max_rejected_fraction 0.1 and errors.rejected_rows_always_allowed 40 allow"
    with pytest.raises(ErrorBudgetExceeded, match=f"41 of 200 rows set aside, .*{both}"):
        budget.check(counted(41).snapshot())


def test_of_what_ray_does_again_the_records_count(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.ray_job.budget.LOOK_EVERY_SECONDS", 0.0)
    budget, twice = Budget(job, counts_once=False), counted(2 * ALLOWED).snapshot()
    budget.check(twice)
    record(job, "00-a", 0, ALLOWED)
    record(job, "00-b", 0, ALLOWED)  # a replay's
    budget.check(twice)
    record(job, "00-c", ALLOWED, 1)
    budget.look_at = 0.0
    with pytest.raises(ErrorBudgetExceeded, match=r"21 of 200 rows set aside"):
        budget.check(twice)
    record(job, "00-d", ALLOWED - 1, 0, ok=1)  # tried again, and done
    budget.look_at = 0.0
    budget.check(twice)


@pytest.mark.parametrize("counts_once", [True, False])
def test_a_resumed_job_begins_with_the_rows_that_were_set_aside(
    job: Job, monkeypatch: pytest.MonkeyPatch, counts_once: bool
) -> None:
    """Of what it has seen itself they are nearly all, of the run's rows few."""
    monkeypatch.setattr("tasks.ray_job.budget.LOOK_EVERY_SECONDS", 0.0)
    unknown = replace(job, pins={**job.pins, "known_rows": None})
    record(job, "00-a", 0, 990, ok=9_010)
    record(replace(job, plan="superseded"), "00-b", 10_000, 0, ok=1_000)
    counts = Counts()
    counts.add(Report("read", 1_000, 990, 0, 1.0))
    budget = Budget(unknown, counts_once=counts_once)
    budget.check(counts.snapshot())
    record(job, "00-c", 20_000, 300)
    counts.add(Report("read", 300, 300, 0, 1.0))
    budget.look_at = 0.0
    with pytest.raises(ErrorBudgetExceeded, match=r"1,290 of 11,300 rows set aside"):
        budget.check(counts.snapshot())


def test_a_few_bad_rows_at_first_stop_no_run_of_unknown_length(job: Job) -> None:
    errors = ErrorBudget(max_rejected_fraction=0.1, minimum_rows=50)
    spec = job.spec.model_copy(update={"errors": errors})
    unknown = replace(job, spec=spec, pins={**job.pins, "known_rows": None})
    budget, counts = Budget(unknown, counts_once=True), Counts()
    counts.add(Report("read", 49, 0, 0, 1.0))
    counts.add(Report("preprocess", 0, 49, 0, 1.0))
    budget.check(counts.snapshot())
    counts.add(Report("read", 1, 0, 0, 1.0))
    with pytest.raises(ErrorBudgetExceeded, match="49 of 50 rows set aside"):
        budget.check(counts.snapshot())


def test_records_are_read_now_and_then(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    record(job, "00-a", 0, ALLOWED)
    budget, looked = Budget(job, counts_once=False), list[object]()

    def look(*given: object) -> list[Record]:
        looked.append(given)
        return []

    monkeypatch.setattr("tasks.ray_job.budget.load_records", look)
    for _ in range(9):
        budget.check(counted(2 * ALLOWED).snapshot())
    assert len(looked) == 1


def test_records_that_cannot_be_read_end_no_job(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    record(job, "00-a", 0, 2 * ALLOWED)
    budget = Budget(job, counts_once=False)

    def away(*_: object) -> list[Record]:
        raise ConnectionError("503 Slow Down")

    with monkeypatch.context() as patch:
        patch.setattr("tasks.ray_job.budget.load_records", away)
        budget.check(counted(2 * ALLOWED).snapshot())
    budget.check(counted(2 * ALLOWED).snapshot())  # it is too soon to look again
    budget.look_at = 0.0
    with pytest.raises(ErrorBudgetExceeded):
        budget.check(counted(2 * ALLOWED).snapshot())


@pytest.mark.parametrize("percent", [7, 29, 57, 58])
def test_as_many_rows_as_the_fraction_says_may_be_set_aside(tmp_path: Path, percent: int) -> None:
    """Of 0.29 * 100 a computer makes 28.999999999999996."""
    make_inputs(tmp_path / "in", files=2)
    errors = {"max_rejected_fraction": float(f"0.{percent:02}")}
    spec = classify_spec(tmp_path, {"bad": [*range(percent)]}, errors=errors)
    _, report = run_spec(spec)
    assert (report.rows["rejected"], report.rows["written"]) == (percent, 100 - percent)
    assert not ErrorBudget(**errors).allows(percent + 1, 100)
    assert not ErrorBudget(max_rejected_fraction=1).allows(1, 0)


def test_rows_that_are_always_allowed_hold_no_small_run_back(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in", files=1, rows=4)

    def run(allowed: int) -> dict[str, int]:
        errors = {"max_rejected_fraction": 0.01, "rejected_rows_always_allowed": allowed}
        return run_spec(classify_spec(tmp_path, {"bad": [1, 3]}, errors=errors))[1].rows

    for allowed in (0, 1):
        both = f"0.01 and errors.rejected_rows_always_allowed {allowed} allow"
        with pytest.raises(ErrorBudgetExceeded, match=f"2 of 4 rows set aside, .*{both}"):
            run(allowed)
    rows = run(2)  # another budget makes no other run
    assert (rows["rejected"], rows["written"]) == (2, 2)
