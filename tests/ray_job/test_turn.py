"""Whose turn it is: the oldest first, none beyond the limit, nobody for ever."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.ray_job.job import Job
from tasks.ray_job.turn import Claim, ahead_of, claim_of, replicas_within
from tasks.spec_file import parse_spec


def spec(**resources: Any) -> Any:
    return parse_spec(
        {
            "source": {"kind": "parquet", "path": "in"},
            "model": {"kind": "python", "class": "a:B"},
            "sink": {"kind": "parquet", "path": "out"},
            "resources": resources,
        }
    )


def waits(id_: str, queue: list[Claim], max_gpus: float) -> list[str]:
    job: Any = SimpleNamespace(id=id_, max_gpus=max_gpus)
    return [each.id for each in ahead_of(job, queue) or []]


QUEUE = [Claim(1, "a", 2), Claim(2, "b", 3), Claim(3, "c", 1)]


@pytest.mark.parametrize(
    ("limit", "waiting"),
    [(6, []), (5, ["c"]), (4, ["b", "c"]), (3, ["b", "c"])],
)
def test_the_oldest_come_first_and_nobody_overtakes(limit: float, waiting: list[str]) -> None:
    assert [each.id for each in QUEUE if waits(each.id, QUEUE, limit)] == waiting
    assert waits("c", QUEUE, 3) == ["a", "b"]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1), st.integers(4, 9))
def test_those_whose_turn_it_is_fit_and_there_is_always_one(
    jobs: list[tuple[int, int]], limit: int
) -> None:
    queue = [Claim(started, f"{at:03d}", gpus) for at, (started, gpus) in enumerate(jobs)]
    at_work = [each for each in queue if not waits(each.id, queue, limit)]
    assert at_work
    assert sum(each.gpus for each in at_work) <= limit


def test_a_job_takes_no_more_replicas_than_its_share() -> None:
    assert replicas_within(spec(max_replicas=8), 4, 1.0) == 4
    assert replicas_within(spec(max_replicas=8), 1.0, 0.1) == 8
    assert replicas_within(spec(max_replicas=20), 1.0, 0.1) == 10
    assert replicas_within(spec(max_replicas=8), 4, 0.0) == 8
    assert claim_of(spec(max_replicas=8), 4, 1.5) == 3.0
    assert Job.max_gpus is None
