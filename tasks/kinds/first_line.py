"""What the errors of storages' clients say, in a line."""


def first_line(error: BaseException) -> str:
    """What an error says, without the trace that some clients put below it."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
