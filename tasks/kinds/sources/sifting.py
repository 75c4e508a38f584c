"""Makes tables of rows of which some are bad; these come out one by one, in their places."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from typing import TypeAlias

import pyarrow as pa

from tasks.kinds.sources.source import Read
from tasks.kinds.sources.text import bad_row, reads_of

Parse: TypeAlias = Callable[[list[bytes]], pa.Table]
"""Makes a table of rows, or raises an error where one of them is bad."""
Explain: TypeAlias = Callable[[bytes, Exception], str]
"""Why a row is bad, for a person."""
Suspects: TypeAlias = Mapping[int, Exception | None]
"""Rows by their places: those that surely are bad, and why; None: those that may be."""


def sifted(rows: list[bytes], suspects: Suspects, parse: Parse, explain: Explain) -> Iterator[Read]:
    """Rows that do not parse in one go: those that nobody suspects in one go all the same.

    To halve the rows until each bad one stands alone takes ten calls or more for each.
    """
    others, used = None, 0
    with suppress(ValueError, pa.ArrowException):
        others = parse([row for at, row in enumerate(rows) if at not in suspects])
    for said, places in groupby(range(len(rows)), lambda at: suspects.get(at, True)):
        at, *more = places
        part = rows[at : at + 1 + len(more)]
        if isinstance(said, Exception):
            yield bad_row(explain(part[0], said), part[0])
        elif said and others is not None:
            yield from reads_of(others.slice(used, len(part)))
            used += len(part)
        else:
            yield from halved(part, parse, explain)


def halved(rows: list[bytes], parse: Parse, explain: Explain) -> Iterator[Read]:
    """Rows as tables; what does not parse in one go is halved until bad rows stand alone."""
    try:
        table = parse(rows)
    except (ValueError, pa.ArrowException) as error:
        if len(rows) == 1:
            yield bad_row(explain(rows[0], error), rows[0])
            return
        yield from halved(rows[: len(rows) // 2], parse, explain)
        yield from halved(rows[len(rows) // 2 :], parse, explain)
        return
    yield from reads_of(table)
