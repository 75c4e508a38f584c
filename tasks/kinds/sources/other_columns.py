"""Says in the job's log where a file's columns are not those that are read."""

from collections.abc import Iterable

told: set[str] = set()
"""What this process has said: once of each difference, however many files have it."""


def tell_of_other_columns(path: str, there: Iterable[str], read: Iterable[str]) -> None:
    """Say which columns a file lacks, and which of its own are not read.

    Args:
        path: the file.
        there: its columns.
        read: those of the first file, which are read of all.
    """
    there, read = list(there), list(read)
    lacking = [name for name in read if name not in there]
    more = [name for name in there if name not in read]
    tell_once(path, "lacks", lacking, "as others have; they are null in its rows")
    tell_once(path, "has", more, "as the first file has not; they are not read")


def tell_once(path: str, how: str, names: list[str], what: str) -> None:
    """Say it of the first file of which it is true."""
    problem = f"{how} columns {', '.join(names)}, {what}"
    if names and problem not in told:
        told.add(problem)
        print(f"{path} {problem}: source.columns names those that all must have", flush=True)
