"""Says in the job's log where a file's columns are not those that are read."""

from collections.abc import Iterable

import pyarrow as pa

told: set[str] = set()
"""What this process has said: once of each difference, however many files have it."""


def tell_of_other_columns(path: str, there: pa.Schema, read: pa.Schema) -> None:
    """Say which columns a file lacks, and which of its own are not read; also within structs.

    Args:
        path: the file.
        there: its columns.
        read: those of the first file, which are read of all.
    """
    lacking, more = without(read, there), without(there, read)
    all_must = "list columns that all files must have in source.columns"
    tell_once(
        path, "lacks", lacking, f"which other files have; they are null in its rows; {all_must}"
    )
    types = "to read a column, give its type in source.types"
    tell_once(path, "has", more, f"which the first file does not have; they are not read; {types}")


def without(fields: Iterable[pa.Field], others: Iterable[pa.Field]) -> list[str]:
    """Names of fields that are not among others; of structs in both, of the fields within."""
    known = {each.name: each.type for each in others}
    found = []
    for each in fields:
        if each.name not in known:
            found.append(each.name)
        elif pa.types.is_struct(each.type) and pa.types.is_struct(known[each.name]):
            inside = without(each.type, known[each.name])
            found += [f"{each.name}.{name}" for name in inside]
    return found


def tell_once(path: str, how: str, names: list[str], what: str) -> None:
    """Say it of the first file of which it is true."""
    problem = f"{how} columns {', '.join(names)}, {what}"
    if names and problem not in told:
        told.add(problem)
        print(f"{path} {problem}", flush=True)
