"""Files that rows name, as a column of paths does, for code of one's own to open."""

from itertools import chain

import pyarrow as pa

from tasks.kinds.column_types import is_text


def is_of_a_lost_file(error: Exception, rows: pa.Table) -> bool:
    """Whether a file of this machine is not there that a row names: whole, or by its last parts.

    Where a store has no such object, its client says so without a number.
    """
    path = getattr(error, "filename", None)
    if not (isinstance(error, FileNotFoundError) and isinstance(path, str)):
        return False
    texts = chain(*(rows[each.name].to_pylist() for each in rows.schema if is_text(each.type)))
    names = (text.removeprefix("file://") for text in texts if text)
    return any(path == name or path.endswith(f"/{name}") for name in names)
