"""Rows that are fetched in one go, so that the database is free again."""

import pickle
from collections.abc import Iterator
from tempfile import TemporaryFile

from tasks.kinds.sources.source import Read


def fetched_first(reads: Iterator[Read]) -> Iterator[Read]:
    """The same reads, of which the first is handed on when the last has been fetched.

    Whoever takes them may be at work on each for hours. They lie in a file meanwhile: a day's rows
    may be more than fit into memory.
    """
    with TemporaryFile() as file:
        count = 0
        for read in reads:
            pickle.dump(read, file)
            count += 1
        file.seek(0)
        for _ in range(count):
            yield pickle.load(file)
