"""Rows that are fetched in one go, so that the database is free again."""

import math
import pickle
from collections.abc import Iterator
from tempfile import TemporaryFile

from tasks.kinds.sources.source import Read


def fetched_first(reads: Iterator[Read], most_bytes: float = math.inf) -> Iterator[Read]:
    """The same reads, of which the first is handed on when the last has been fetched.

    Whoever takes them may be at work on each for hours. They lie in a file meanwhile: a day's rows
    may be more than fit into memory.

    Args:
        reads: of a database.
        most_bytes: of the file; what comes after so many is fetched as it is wanted.
    """
    with TemporaryFile() as file:
        count = 0
        for read in reads:
            pickle.dump(read, file)
            count += 1
            if file.tell() > most_bytes:
                break
        file.seek(0)
        for _ in range(count):
            yield pickle.load(file)
    yield from reads
