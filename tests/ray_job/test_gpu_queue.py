"""Whose turn it is: the oldest first, none beyond the limit, nobody for ever."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import InvalidSpec, Unreachable
from tasks.ray_job import gpu_queue
from tasks.ray_job.gpu_queue import (
    Claim,
    ahead_of,
    await_turn,
    claim_of,
    replicas_within,
    within_limit,
)
from tasks.ray_job.job import Job
from tasks.spec_file import parse_spec
from tests.ray_job.test_own_machine import job_of


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


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1), st.integers(4, 9))
def test_those_whose_turn_it_is_fit_and_there_is_always_one(
    jobs: list[tuple[int, int]], limit: int
) -> None:
    queue = [Claim(started, f"{at:03d}", gpus) for at, (started, gpus) in enumerate(jobs)]
    at_work = [each for each in queue if not waits(each.id, queue, limit)]
    assert at_work
    assert sum(each.gpus for each in at_work) <= limit
    assert all(each.gpus for each in queue if each not in at_work), "who takes none waits for none"


def test_a_job_without_gpus_does_not_wait_for_those_that_have_them() -> None:
    queue = [Claim(1, "a", 2), Claim(2, "b", 1), Claim(3, "none", 0)]
    assert [each.id for each in queue if waits(each.id, queue, 2)] == ["b"]


def test_a_job_takes_no_more_replicas_than_its_share() -> None:
    assert replicas_within(spec(max_replicas=8), 4, 1.0) == 4
    assert replicas_within(spec(max_replicas=8), 1.0, 0.1) == 8
    assert replicas_within(spec(max_replicas=20), 1.0, 0.1) == 10
    assert replicas_within(spec(max_replicas=8), 4, 0.0) == 8
    assert claim_of(spec(max_replicas=8), 4, 1.5) == 3.0
    assert Job.max_gpus is None


BEYOND: dict[str, tuple[dict[str, Any], float, float, str]] = {
    "more to start with": ({"min_replicas": 4}, 2, 1.0, "4 .* with 1 GPU.* may hold 2 together"),
    "less than one's": ({}, 0.5, 1.0, "1 .* with 1 GPU.* 0.5 together.* resources.num_gpus"),
    "parts": ({"min_replicas": 3}, 1, 0.5, "3 .* with 0.5 GPUs.* may hold 1 together"),
}


def limited(max_gpus: float | None, **resources: Any) -> Job:
    return replace(job_of(spec(**resources)), max_gpus=max_gpus)


@pytest.mark.parametrize(("resources", "max_gpus", "each", "message"), BEYOND.values(), ids=BEYOND)
def test_a_job_that_could_not_keep_within_the_limit_is_refused(
    resources: dict[str, Any], max_gpus: float, each: float, message: str
) -> None:
    with pytest.raises(InvalidSpec, match=rf"resources\.min_replicas: {message}"):
        claim_of(spec(**resources), max_gpus, each)
    with pytest.raises(InvalidSpec, match=rf"resources\.min_replicas: {message}"):
        within_limit(limited(max_gpus, **resources), each)


@pytest.mark.parametrize(
    ("resources", "max_gpus", "each", "wanted"),
    [
        ({}, 2, 1.0, 2),
        ({"min_replicas": 3}, 0.3, 0.1, 3),  # in binary three tenths hold two tenths and a little
        ({"min_replicas": 6}, 2, 0.0, 6),
        ({"max_replicas": 9}, None, 1.0, 9),
    ],
)
def test_a_job_within_the_limit_has_its_replicas(
    resources: dict[str, Any], max_gpus: float | None, each: float, wanted: int
) -> None:
    kept = within_limit(limited(max_gpus, **resources), each).spec.resources
    assert kept.most_replicas() == wanted
    assert kept.min_replicas <= wanted


def test_a_job_waits_until_the_list_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    job = limited(2)
    first, own = Claim(1, "first", 2), Claim(2, job.id, 1)
    looks = iter([[], [first], [first, own], [replace(first, gpus=1), own]])
    monkeypatch.setattr(gpu_queue, "claims", lambda: next(looks))
    monkeypatch.setattr(gpu_queue, "LOOK_EVERY_SECONDS", 0.0)
    told: list[str] = []
    await_turn(job, told.append)
    unnamed = "its turn: the cluster's list of jobs does not include it yet"
    assert told == [unnamed, unnamed, "its turn: max_gpus 2 of the cluster are held by first"]
    assert next(looks, None) is None


def test_a_list_that_does_not_answer_takes_no_job_out_of_the_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ray.util.state.exception import RayStateApiException, ServerUnavailable

    job = limited(2)
    own = {"start_time": 1, "submission_id": job.id, "status": "RUNNING"}
    answers = [
        ServerUnavailable("Failed to make request"),
        RayStateApiException("API server internal error"),
        TimeoutError("read timed out"),
        RuntimeError("status code 503"),
        [SimpleNamespace(**own, metadata={gpu_queue.GPUS: "1"})],
    ]
    told = waits_told(job, answers, monkeypatch)
    assert told == [
        f"its turn: the cluster's list of jobs does not answer ({type(error).__name__})"
        for error in answers[:-1]
    ]


def waits_told(job: Job, answers: list[Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a job tells until its turn comes, by what Ray's list of jobs returns or raises."""
    asked = iter(answers)

    def list_jobs(**_: Any) -> Any:
        if isinstance(answer := next(asked), Exception):
            raise answer
        return answer

    monkeypatch.setattr("ray.util.state.list_jobs", list_jobs)
    monkeypatch.setattr(gpu_queue, "LOOK_EVERY_SECONDS", 0.01)
    told: list[str] = []
    await_turn(job, told.append)
    return told


def test_a_list_that_never_answers_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = limited(2)
    timeouts = job.spec.timeouts.model_copy(update={"unreachable_seconds": 0.0})
    job = replace(job, spec=job.spec.model_copy(update={"timeouts": timeouts}))
    with pytest.raises(Unreachable, match="list of jobs does not answer"):
        waits_told(job, [ConnectionError("away")] * 3, monkeypatch)
