"""What a stage raises where the fault is no row's: an error of ours that says what to do."""

from tasks.errors import BatchInferenceError, InvalidSpec, StageFailed

MESSAGE_CHARACTERS = 2_000


def describe(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}"[:MESSAGE_CHARACTERS]


def stage_error(error: BaseException) -> BatchInferenceError:
    """An error as one of ours: final where a package is missing, which no attempt will bring."""
    if isinstance(error, BatchInferenceError):
        return error
    if isinstance(error, ModuleNotFoundError):
        return InvalidSpec(
            f"environment.pip: {describe(error)}, where the job runs: name the package that has "
            f"{error.name!r} here, or install it there"
        )
    return StageFailed(describe(error))
