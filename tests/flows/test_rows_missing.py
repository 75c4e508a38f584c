"""A run whose jobs end well and leave something undone says what, and where to look."""

import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from flows import attempts
from tasks.errors import InputChanged, RowsMissing
from tasks.patience import Deadline
from tasks.plan import make_plan
from tasks.run import left_to_do
from tests.flows.conftest import spec_of


def test_jobs_that_end_well_and_record_nothing(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = SimpleNamespace(tell=None)
    monkeypatch.setattr(attempts, "next_attempt", lambda planned, gap, tell, after: attempt)
    monkeypatch.setattr(attempts, "run_stages", lambda attempt, deadline: None)
    monkeypatch.setattr(attempts, "get_run_logger", logging.getLogger)
    planned = make_plan(spec_of(numbers, retries={"max_attempts": 2}))
    with pytest.raises(RowsMissing) as caught:
        attempts.run_until_covered(planned, Deadline(None))
    said = str(caught.value)
    assert said.startswith("after 2 attempts, the last of which ended well, there is no record")
    assert f"counts of rows in 10 shards, the first of {numbers}/0.parquet: look into" in said
    assert planned.run.records in said
    gap = left_to_do(planned, tried=True)
    known = replace(gap, shards=gap.shards[3:4], rows=50)
    said = str(attempts.given_up(planned, known, 1, None))
    assert f"counts of 50 rows in 1 shard, the first of {numbers}/3.parquet: look" in said


def test_inputs_that_change_in_every_attempt_are_given_up(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where what had been planned first was covered in between."""
    planned = make_plan(spec_of(numbers, retries={"max_attempts": 2}))
    left = left_to_do(planned, tried=False)
    covered = replace(left, shards=left.shards[:0])
    # Of each attempt: what is left of the old plan, and of the new one.
    gaps = iter([left, left, left, covered, left, left, left])
    monkeypatch.setattr(attempts, "gap_left", lambda *_: next(gaps))
    monkeypatch.setattr(attempts, "run_attempt", lambda *_: (None, InputChanged("it changed")))
    monkeypatch.setattr(attempts, "planned_anew", lambda planned: planned)
    monkeypatch.setattr(attempts, "backoff_seconds", lambda tried: 0.0)
    monkeypatch.setattr(attempts, "get_run_logger", logging.getLogger)
    with pytest.raises(InputChanged) as caught:
        attempts.run_until_covered(planned, Deadline(None))
    assert caught.value.attempts == 3
