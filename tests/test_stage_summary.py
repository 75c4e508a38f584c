"""What is said of a stage in its line: in Prefect, and at a terminal."""

from typing import Any

import pytest

from tasks.job_look import Look
from tasks.ray_job.counts import STAGES
from tasks.stage_summary import moved, summary


def progress(**states: str) -> dict[str, Any]:
    """What a job says while nothing moves; stages that are not named are done."""
    counts = {"rows": 10, "started": 1.0, "updated": 2.0, "total": 20}
    counts |= {"rejected": 0, "filtered": 0}
    each = {stage: {**counts, "state": states.get(stage, "done")} for stage in STAGES}
    said = {"state": "running", "works_at": None, "waits_for": "a replica", "at": 2.0}
    return {**said, "stages": each}


@pytest.mark.parametrize(
    ("waits_for", "infer"),
    [
        (None, "at work on its first rows"),
        ("1 replica of infer to load the model", "waits for 1 replica of infer to load the model"),
    ],
)
def test_a_stage_whose_first_rows_take_long_does_not_look_stuck(
    waits_for: str | None, infer: str
) -> None:
    said = progress(infer="waiting", write="waiting") | {"waits_for": waits_for}
    for stage in STAGES[2:]:
        said["stages"][stage] |= {"rows": 0, "parents": 0, "started": None, "updated": None}
    told = {stage: summary(Look(said), stage) for stage in STAGES[1:]}
    assert told == {"preprocess": "10 rows, 10 rows/s", "infer": infer, "write": "waiting"}
    reads_again = progress(read="running", infer="waiting", write="waiting") | {"waits_for": None}
    reads_again["stages"]["read"] |= {"rows": 0, "passed_over": 12_000}
    said_of_read = summary(Look(reads_again), "read")
    assert said_of_read == "0 rows, 0 rows/s, 12,000 passed over"
    unwritten = progress(infer="running", write="waiting")
    unwritten["stages"]["write"] |= {"rows": 0, "parents": 0, "started": None}
    assert summary(Look(unwritten), "write") == "waiting", "it gathers rows for a file"
    without_steps = progress(read="running", preprocess="waiting", infer="running")
    without_steps["stages"]["preprocess"] |= {"rows": 0, "parents": 0, "started": None}
    assert summary(Look(without_steps), "preprocess") == "nothing to do"
    unread = progress(**dict.fromkeys(STAGES, "waiting"))
    for counts in unread["stages"].values():
        counts |= {"rows": 0, "parents": 0, "started": None}
    assert {summary(Look(unread), stage) for stage in STAGES} == {"waiting"}


@pytest.mark.parametrize(
    ("says", "infer"),
    [
        ({"waits_for": None}, "1 s left"),
        ({"waits_for": "a place for 1 replica"}, "waits for a place for 1 replica"),
        ({"waits_for": None, "at": 61.0}, "1 s left"),
        ({"waits_for": None, "at": 302.0}, "no row for 5.0 minutes"),
    ],
)
def test_a_stage_that_gets_no_further_does_not_look_as_if_it_did(
    says: dict[str, Any], infer: str
) -> None:
    """As where its node is lost, or a call of the model hangs."""
    said = progress(infer="running", write="running") | {"works_at": "infer"} | says
    told = {stage: summary(Look(said), stage) for stage in STAGES[1:]}
    assert told == {
        "preprocess": "10 rows, 10 rows/s",
        "infer": f"10 rows, 10 rows/s, {infer}",
        "write": "10 rows, 10 rows/s, 1 s left",
    }


def test_writers_that_gather_rows_for_a_file_are_not_said_to_stand_still() -> None:
    said = progress(write="running") | {"waits_for": None, "at": 302.0}
    assert summary(Look(said), "write") == "10 rows, 10 rows/s, 1 s left"


@pytest.mark.parametrize("is_told", [True, False], ids=["failed", "stopped"])
def test_a_stage_of_a_job_that_is_over_has_no_time_left(is_told: bool) -> None:
    said = progress(preprocess="running", infer="running", write="waiting")
    said["stages"]["write"] |= {"rows": 0, "started": None}
    look = Look(said, {"error": {"class": "StageFailed"}} if is_told else None)
    told = {stage: summary(look, stage, is_over=not is_told) for stage in STAGES}
    assert told == {
        "read": "10 rows, 10 rows/s",
        "preprocess": "10 rows, 10 rows/s, stopped",
        "infer": "10 rows, 10 rows/s, stopped",
        "write": "not begun",
    }
    queued = Look({**said, "state": "queued", "waits_for": "nodes"})
    assert summary(queued, "write") == "waits for nodes"
    assert summary(queued, "write", is_over=True) == "not begun"


@pytest.mark.parametrize(
    ("rows", "seconds", "said"),
    [
        (4, 10.0, "4 rows, 0.4 rows/s"),
        (1, 3.0, "1 row, 0.3333 rows/s"),
        (24_690, 2.0, "24,690 rows, 12,345 rows/s"),
        (24_691, 2.0, "24,691 rows, 12,346 rows/s"),
    ],
)
def test_a_slow_stage_has_a_speed(rows: int, seconds: float, said: str) -> None:
    counts = {"rows": rows, "rejected": 0, "state": "done", "total": rows}
    assert moved({**counts, "started": 100.0, "updated": 100.0 + seconds}) == said


@pytest.mark.parametrize(
    ("total", "said"),
    [
        (50_000, "10 rows, 1 rows/s, 13.9 hours left"),
        (400, "10 rows, 1 rows/s, 6.5 minutes left"),
        (129, "10 rows, 1 rows/s, 119 s left"),
        (11, "10 rows, 1 rows/s, 1 s left"),
        (10, "10 rows, 1 rows/s"),  # that it works on shows that this was too few
        (9, "10 rows, 1 rows/s"),
        (None, "10 rows, 1 rows/s"),
    ],
)
def test_a_stage_that_works_on_does_not_say_that_no_time_is_left(
    total: int | None, said: str
) -> None:
    counts = {"rows": 10, "rejected": 0, "state": "running", "total": total}
    assert moved({**counts, "started": 100.0, "updated": 110.0}) == said
    nearly = {**counts, "rows": 99, "total": 100, "started": 100.0, "updated": 101.0}
    assert moved(nearly) == "99 rows, 99 rows/s, 1 s left"
