"""What a stage raises, as an error of ours."""

from tasks.errors import InvalidSpec, StageFailed
from tasks.ray_job.stage_error import stage_error


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
