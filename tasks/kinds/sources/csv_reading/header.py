"""A CSV file's header beside the one that is pinned, and what becomes of rows under none."""

from collections.abc import Collection, Iterator
from itertools import chain

import pyarrow as pa

from tasks.kinds.sources.source import BadRow
from tasks.kinds.sources.text import bad_row

SEVERAL = "the files inspected for columns; to take a new one, give its type in source.types"


def refuse_others(
    header: list[str],
    schema: pa.Schema,
    *,
    takes_new: bool,
    needed: Collection[str] | None = None,
) -> None:
    """See that a file has the pinned columns, in any order.

    Args:
        header: names of the file's columns.
        schema: of those that are pinned.
        takes_new: whether it may have others too, which nobody reads.
        needed: those of them that it may not lack, whatever others it does; None: none at all.

    Raises:
        ValueError: it has not.
    """
    here, known = set(header), set(schema.names)
    missing = [repr(name) for name in schema.names if name not in here]
    new = [repr(name) for name in header if name not in known and not takes_new]
    if needed is not None and len(missing) < len(schema):
        missing = [repr(name) for name in needed if name not in here]
    found = [f"lacks {', '.join(missing)}"] * bool(missing)
    found += [f"also has {', '.join(new)}"] * bool(new)
    if found:
        unlike = "the first file with rows" if needed is None else SEVERAL
        raise ValueError(f"the header {' and '.join(found)}, unlike {unlike}")


def without_header(
    header: bytes | BadRow, records: Iterator[bytes | BadRow], error: ValueError
) -> Iterator[BadRow]:
    """The rows of a file whose header is none; the header, where there are no others.

    Each row counts as one: else a large file would be lost within any error budget.
    """
    reason = str(header.error if isinstance(header, BadRow) else error)
    for each in chain([next(records, header)], records):
        yield each if isinstance(each, BadRow) else bad_row(reason, each)
