"""Published files without the rows that a run replaces, of its inputs or of its keys.

Which rows leave is part of the entry, and so of what is decided at once: after it, files are only
moved.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from tasks.protocol.ids import Mask
from tasks.protocol.layout import OutputFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.publication import Publication
from tasks.protocol.rewriting import only_kept, republished
from tasks.protocol.storage import Storage
from tasks.protocol.table import taken_out


def left_by_keys(
    output: OutputFolder, seen: Snapshot, what: Publication, *, again: bool = False
) -> dict[str, Mask]:
    """Published files with rows that the run replaces by their keys, and which rows stay.

    Where rows are replaced, also by the run's inputs, no row stays that a table has no more.

    Args:
        output: where they are published.
        seen: what is published.
        what: the run.
        again: whether some of its inputs are published.
    """
    if what.keys is None and not again:
        return {}
    gone = taken_out(output.table, seen)
    left = {path: np.zeros(seen.files[path].rows, dtype=bool) for path in gone}
    if what.keys is not None:
        files = [file for path, file in seen.files.items() if path not in gone]
        masks = zip(files, what.keys.left(files), strict=True)
        left |= {file.path: keep for file, keep in masks if not keep.all()}
    return left


def rewritten(
    storage: Storage,
    output: OutputFolder,
    what: Publication,
    files: Iterable[tuple[LedgerFile, Mask]],
    names: Iterator[str],
) -> tuple[list[LedgerFile], list[str]]:
    """Published files anew, with the rows that stay of them; and the paths of the old ones."""
    added, removed = [], []
    for file, keep in files:
        drop = what.drop_rows if file.line == "file" else what.drop_rejections
        kept = only_kept(storage, output, what.run, file, keep, drop)
        if kept is None:
            continue
        removed.append(file.path)
        if kept.ids:
            added.append(republished(what.run, file, kept, next(names)))
    return added, removed
