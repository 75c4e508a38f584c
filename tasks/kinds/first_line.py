"""What the errors of storages' clients say, in a line."""

from tasks.protocol.client_errors import plain


def first_line(error: BaseException) -> str:
    """What an error says, without the trace that some clients put below it.

    A line that ends with a colon says nothing without the next one.
    """
    said, *more = plain(error).strip().splitlines() or [type(error).__name__]
    return f"{said} {more[0].strip()}" if more and said.endswith(":") else said
