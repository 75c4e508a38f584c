"""Which of many files are asked for names and types of columns."""

from collections.abc import Sequence

from tasks.protocol.object_stat import Stat

GROWS = "grows"
"""A pin: columns are those of several files, of which each may lack some."""
FIRST_FILES = 10
FILES_BETWEEN = 64
"""Of those between the first ones and the last, where all columns are wanted that any has."""


def behind_the_first(inputs: Sequence[Stat], *, between: bool) -> list[Stat]:
    """The last of the files behind the first ones, as names are sorted by time more often than not.

    Args:
        inputs: all files.
        between: whether some between them are asked too, at even distances.
    """
    rest = inputs[FIRST_FILES:]
    places = range(0, len(rest) - 1, len(rest) // FILES_BETWEEN + 1) if between else ()
    return [*(rest[at] for at in places), *rest[-1:]]


def spread(inputs: Sequence[Stat]) -> list[Stat]:
    """Files that are asked where all columns are wanted that any has."""
    return [*inputs[:FIRST_FILES], *behind_the_first(inputs, between=True)]
