"""A run whose jobs end well and leave something undone says what, and where to look."""

import logging
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from flows import attempts
from tasks.errors import InputChanged, RowsMissing, StageFailed
from tasks.plan import PlannedRun, make_plan
from tasks.protocol.acceptance import Gap
from tasks.run import left_to_do
from tasks.timeouts import Deadline
from tests.flows.conftest import spec_of


def test_jobs_that_end_well_and_record_nothing(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = SimpleNamespace(tell=None)
    monkeypatch.setattr(attempts, "next_attempt", lambda *_: attempt)
    monkeypatch.setattr(attempts, "run_stages", lambda attempt, deadline: None)
    monkeypatch.setattr(attempts, "get_run_logger", logging.getLogger)
    planned = make_plan(spec_of(numbers, retries={"max_attempts": 2}))
    with pytest.raises(RowsMissing) as caught:
        attempts.run_attempts(planned, Deadline(None))
    said = str(caught.value)
    assert said.startswith("after 2 attempts, the last of them successful, ")
    assert (
        f"rows in 10 shards still have no valid record, the first of {numbers}/0.parquet: check"
        in said
    )
    assert planned.run.records in said
    gap = left_to_do(planned, tried=True)
    known = replace(gap, shards=gap.shards[3:4], rows=50)
    said = str(attempts.given_up(planned, known, 1, None))
    assert (
        f"50 rows in 1 shard still have no valid record, the first of {numbers}/3.parquet: c"
        in said
    )


@pytest.mark.parametrize(("schemas", "tried"), [((1, 2), 2), ((1, 1), 1)])
def test_what_a_wider_type_has_made_anew_is_no_failure(
    schemas: tuple[int, int], tried: int, numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 900 rows that an earlier command has recorded none counts any more."""
    planned = make_plan(spec_of(numbers, retries={"max_attempts": 1}))
    left = left_to_do(planned, tried=False)
    before, after = (
        replace(left, done=done, schemas=pinned)
        for done, pinned in zip((900, 50), schemas, strict=True)
    )
    gaps = iter([before, after, replace(left, shards=left.shards[:0], done=1000)])
    monkeypatch.setattr(attempts, "gap_left", lambda *_, **__: next(gaps))
    made: list[object] = []

    def run_attempt(*given: object) -> tuple[None, None]:
        made.append(given)
        return None, None

    monkeypatch.setattr(attempts, "run_attempt", run_attempt)
    monkeypatch.setattr(attempts, "get_run_logger", logging.getLogger)
    with nullcontext() if tried == 2 else pytest.raises(RowsMissing):
        assert attempts.run_attempts(planned, Deadline(None))[1] == 2
    assert len(made) == tried


def test_rows_that_a_failed_attempt_was_to_try_again_still_are(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = make_plan(spec_of(numbers, retries={"max_attempts": 3}))
    left = left_to_do(planned, tried=False)
    problems = iter([StageFailed("the node has gone"), None])
    asked: list[bool] = []

    def gap_left(planned: PlannedRun, deadline: Deadline, *, tried: bool) -> Gap:
        asked.append(tried)
        return left if len(asked) < 3 else replace(left, shards=left.shards[:0])

    monkeypatch.setattr(attempts, "gap_left", gap_left)
    monkeypatch.setattr(attempts, "run_attempt", lambda *_: (None, next(problems)))
    monkeypatch.setattr(attempts, "backoff_seconds", lambda tried: 0.0)
    monkeypatch.setattr(attempts, "get_run_logger", logging.getLogger)
    attempts.run_attempts(planned, Deadline(None))
    assert asked == [False, False, True]


def test_inputs_that_change_in_every_attempt_are_given_up(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where what had been planned first was covered in between."""
    planned = make_plan(spec_of(numbers, retries={"max_attempts": 2}))
    left = left_to_do(planned, tried=False)
    covered = replace(left, shards=left.shards[:0])
    # Of each attempt: what is left of the old plan, and of the new one.
    gaps = iter([left, left, left, covered, left, left, left])
    monkeypatch.setattr(attempts, "gap_left", lambda *_, **__: next(gaps))
    monkeypatch.setattr(attempts, "run_attempt", lambda *_: (None, InputChanged("it changed")))
    monkeypatch.setattr(attempts, "planned_anew", lambda planned: planned)
    monkeypatch.setattr(attempts, "backoff_seconds", lambda tried: 0.0)
    monkeypatch.setattr(attempts, "get_run_logger", logging.getLogger)
    with pytest.raises(InputChanged) as caught:
        attempts.run_attempts(planned, Deadline(None))
    assert caught.value.attempts == 3
