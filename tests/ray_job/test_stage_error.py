"""What the orchestrator hears of an error on the cluster."""

import pytest

from tasks.errors import InvalidSpec, StageFailed, UserCodeBroke
from tasks.ray_job.__main__ import explain
from tasks.ray_job.stage_error import stage_error


class RaysError(Exception):
    """As Ray wraps an error: of its own module, with the wrapped one as `cause`."""

    def __init__(self, cause: Exception) -> None:
        super().__init__("ray::read() (pid=1)\n  many lines")
        self.cause = cause


RaysError.__module__ = "ray.exceptions"


def test_a_missing_package_is_named_and_no_attempt_will_help() -> None:
    error = stage_error(ModuleNotFoundError("No module named 'nltk'", name="nltk"))
    assert isinstance(error, InvalidSpec)
    assert "environment.pip" in str(error)
    assert "'nltk'" in str(error)
    assert "a preview without --cluster (on_cluster), take the process as it is" in str(error)


def test_any_other_error_can_be_tried_again() -> None:
    error = stage_error(OSError(28, "No space left on device"))
    assert isinstance(error, StageFailed)
    assert error.can_retry
    assert "No space left" in str(error)


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
