"""What a stage raises, as an error of ours."""

from tasks.errors import InvalidSpec, StageFailed
from tasks.ray_job.stage_error import raised_by, stage_error


def test_a_missing_package_is_named_and_no_attempt_will_help() -> None:
    error = stage_error(ModuleNotFoundError("No module named 'nltk'", name="nltk"))
    assert isinstance(error, InvalidSpec)
    assert "environment.pip" in str(error)
    assert "'nltk'" in str(error)
    assert "a preview without --cluster (on_cluster), use this process's packages" in str(error)


def test_any_other_error_can_be_tried_again() -> None:
    error = stage_error(OSError(28, "No space left on device"))
    assert isinstance(error, StageFailed)
    assert error.can_retry
    assert "No space left" in str(error)


def test_an_error_is_raised_by_the_stage_that_raised_it() -> None:
    broke = ValueError("no file vocab.txt")
    known = raised_by("preprocess", broke)
    assert str(known) == "stage preprocess failed: ValueError: no file vocab.txt"
    assert known.__cause__ is broke
    where = StageFailed("a disk is full").locate("read", "/in/a.csv", 4)
    assert raised_by("infer", where) is where
    assert str(where) == "stage read failed at /in/a.csv, row 4: a disk is full"
    assert where.__cause__ is None


def test_no_stage_is_to_blame_for_a_wrong_spec() -> None:
    wrong = InvalidSpec.at("model.class", "a:B", "is not there")
    assert str(raised_by("infer", wrong)) == "model.class: 'a:B' is not there"
    missing = raised_by("preprocess", ModuleNotFoundError("No module named 'x'", name="x"))
    assert str(missing).startswith("environment.pip: ModuleNotFoundError")
