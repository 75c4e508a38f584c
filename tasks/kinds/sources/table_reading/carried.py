"""Which published inputs live on in which files of a table, after compactions.

A commit that only moves rows, as Delta's OPTIMIZE does, makes no new predictions necessary: what is
published of the files before it stands for the files after it, as long as all of these stay as
they are.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.sources.source import Content
from tasks.kinds.sources.table_reading.version import DataFiles, TableVersion
from tasks.protocol.object_stat import Stat

GONE = "gone"
"""Identity of an input that has left the table, and its rows the output."""
UNLISTED = (
    *(InvalidSpec, FileNotFoundError),
    *(pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError),
)
"""A version was cleaned up, or has not the columns of a filter; no storage that is away."""


@dataclass(frozen=True)
class Carried:
    """Published inputs, and the files that hold their rows now, and no others."""

    inputs: frozenset[Content]
    files: frozenset[Content]


def left_to_do(now: Sequence[Stat], published: set[Content], version: TableVersion) -> list[Stat]:
    """What a run has to do for its output to hold what the table holds.

    Args:
        now: files of the version.
        published: inputs of the ledger.
        version: of the table.

    Returns:
        Files whose rows are to be predicted, and inputs whose rows are to leave the output: these
        have no rows any more.
    """
    there = {(stat.path, stat.identity) for stat in now}
    known = {each for each in published if each[1] != GONE}
    alive = [Carried(frozenset([each]), frozenset([each])) for each in known & there]
    if lost := known - there:
        carried = after(version.rewrites(), known)
        # What was moved to where it is no longer as it was is predicted anew, all of it.
        alive += [each for each in carried if each.inputs & lost and each.files <= there]
    done = {file for each in alive for file in each.files}
    kept = {path for each in alive for path, _ in each.inputs}
    paths = {path for path, _ in there}
    gone = sorted({path for path, _ in known} - kept - paths)
    left = [stat for stat in now if (stat.path, stat.identity) not in done]
    return [*left, *(Stat(path, 0, GONE) for path in gone)]


def after(
    rewrites: Iterable[tuple[DataFiles, DataFiles]], published: set[Content]
) -> list[Carried]:
    """Where published inputs are after commits that moved rows."""
    held = {each: Carried(frozenset([each]), frozenset([each])) for each in published}
    for old, new in moves(rewrites):
        if not old or not old <= held.keys():
            continue  # rows that are not published were moved with them, or none was
        moved = {held[each] for each in old}
        inputs = frozenset[Content]().union(*(each.inputs for each in moved))
        files = frozenset[Content]().union(*(each.files for each in moved)) - old | new
        for file in old:
            del held[file]
        held |= dict.fromkeys(files, Carried(inputs, files))
    return list(set(held.values()))


def moves(
    rewrites: Iterable[tuple[DataFiles, DataFiles]],
) -> Iterator[tuple[frozenset[Content], frozenset[Content]]]:
    """Files that each commit took away, and files that it put in their place.

    Of a version that is not whole any more, or has not the columns that are asked for, nobody can
    say that: what was moved then is predicted anew.
    """
    for before, after_ in rewrites:
        with suppress(*UNLISTED):
            old = {(file.path, file.identity) for file in before.files()}
            new = {(file.path, file.identity) for file in after_.files()}
            yield frozenset(old - new), frozenset(new - old)
