"""What the orchestrator hears of an error on the cluster."""

import json
import traceback

import pytest

from tasks.errors import BatchInferenceError, InvalidSpec, OutOfMemory, StageFailed, UserCodeBroke
from tasks.ray_job.result import explain, failure


class RaysError(Exception):
    """As Ray wraps an error: of its own module, with the wrapped one as `cause`."""

    def __init__(self, cause: Exception) -> None:
        super().__init__("ray::read() (pid=1)\n  many lines")
        self.cause = cause


RaysError.__module__ = "ray.exceptions"


@pytest.mark.parametrize("wraps", [1, 2])
def test_rays_own_words_do_not_hide_the_cause(wraps: int) -> None:
    error: Exception = RuntimeError("Unable to locate credentials")
    for _ in range(wraps):
        error = RaysError(error)
    said = explain(error)
    assert (said["class"], said["message"]) == (
        "StageFailed",
        "RuntimeError: Unable to locate credentials",
    )


def test_an_error_of_ours_keeps_class_and_place() -> None:
    broke = UserCodeBroke("3 rows given and 1 returned").locate("infer", "/in/a.csv", 4)
    said = explain(RaysError(broke))
    assert (said["class"], said["stage"], said["source"], said["row"]) == (
        "UserCodeBroke",
        "infer",
        "/in/a.csv",
        4,
    )


def test_rays_advice_on_retries_is_left_out() -> None:
    advice = "Failed to apply UDF transform after 1/1 attempts.\nTo change retry attempts, ..."
    assert explain(StageFailed(f"OSError: disk full\n{advice}"))["message"] == "OSError: disk full"


@pytest.mark.parametrize(
    "error",
    [
        UserCodeBroke("3 rows given and 1 returned").locate("infer", "/in/a.csv", 4),
        OutOfMemory("not one row fits").locate("preprocess"),
        InvalidSpec("model.class: 'a:B' is not there"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_explained_is_raised_again_with_where_it_happened(
    error: BatchInferenceError,
) -> None:
    again = failure(json.loads(json.dumps({"error": explain(error)})))
    assert again is not None
    assert (type(again), str(again), again.stage) == (type(error), str(error), error.stage)
    assert "Where the job ran" in "".join(traceback.format_exception_only(again))
    assert failure({"error": None}) is None


def test_a_result_that_the_job_did_not_leave_names_no_place() -> None:
    lost = failure({"error": {"class": "JobLost", "message": "attempt 1 is gone"}})
    assert str(lost) == "attempt 1 is gone"
