"""Files that rows name, as a column of paths does, for code of one's own to open."""

import os
from itertools import chain

import pyarrow as pa

from tasks.kinds.column_types import is_text
from tasks.python_rows import python_values


def is_of_a_lost_file(error: Exception, rows: pa.Table) -> bool:
    """Whether a file of this machine is not there that a row names, and others lie in its folder.

    A disk that is away has none there. Where a store has no such object, its client says so without
    a number.
    """
    path = getattr(error, "filename", None)
    if not (isinstance(error, FileNotFoundError) and isinstance(path, str)):
        return False
    return is_named(path, rows) and has_files(os.path.dirname(path) or os.curdir)


def is_named(path: str, rows: pa.Table) -> bool:
    """Whether a row names a file, whole or by the last parts of its path."""
    texts = chain(*(python_values(rows[each.name]) for each in rows.schema if is_text(each.type)))
    names = (text.removeprefix("file://") for text in texts if text)
    return any(path == name or path.endswith(f"/{name}") for name in names)


def has_files(folder: str) -> bool:
    """Whether anything lies in a folder."""
    try:
        with os.scandir(folder) as found:
            return next(found, None) is not None
    except OSError:
        return False
