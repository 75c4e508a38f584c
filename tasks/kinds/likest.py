"""Which name somebody may have meant by one that there is not."""

from collections.abc import Iterable
from difflib import get_close_matches


def likest(given: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name that is most like what somebody has written; None where none is like it.

    Args:
        given: what was written.
        names: that there are.
        cutoff: how like it a name has to be, of 1.
    """
    return next(iter(get_close_matches(given, [*names], n=1, cutoff=cutoff)), None)


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """That name as a question, to end a message with; nothing where none is like it."""
    found = likest(given, names)
    return f"; did you mean {found}?" if found else ""
