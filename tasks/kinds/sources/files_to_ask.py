"""Which of many files are asked for names and types of columns."""

from collections.abc import Iterable, Sequence

from tasks.protocol.batch import RESERVED
from tasks.protocol.object_stat import Stat

GROWS = "grows"
"""A pin: columns are those of several files, of which each may lack all but those that are needed,
which the pin names."""
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
    every = max(1, -(-(len(rest) - 1) // FILES_BETWEEN))
    places = range(0, len(rest) - 1, every) if between else ()
    return [*(rest[at] for at in places), *rest[-1:]]


def new_among(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Names of columns that files bring anew.

    One of ours would end the run; one of no letters is a comma too many; and one that is known but
    for case or blanks is a slip, which tables take for the same column.

    Args:
        names: of a file's columns.
        known: those that there are.
    """
    spelt = {each.strip().casefold() for each in known} | {""}
    found: dict[str, str] = {}
    for name in names:
        alike = name.strip().casefold()
        if alike not in spelt and not name.startswith(RESERVED):
            found.setdefault(alike, name)
    return [*found.values()]


def spread(inputs: Sequence[Stat]) -> list[Stat]:
    """Files that are asked where all columns are wanted that any has."""
    return [*inputs[:FIRST_FILES], *behind_the_first(inputs, between=True)]
