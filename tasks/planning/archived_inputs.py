"""Inputs that lie in an archive of S3, where nobody can read them before they are restored."""

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.protocol.asked_at_once import asked_at_once
from tasks.protocol.s3_pages import is_restored
from tasks.protocol.stat_columns import Stats
from tasks.protocol.storage import FsspecStorage
from tasks.protocol.texts import large


def archived_among(archived: pa.ChunkedArray, left: Stats) -> list[str]:
    """Paths of archived inputs that are left to do, in order.

    Args:
        archived: paths of what the listing says to be archived.
        left: inputs that are not published.
    """
    if not len(archived):
        return []
    are_left = pc.is_in(large(archived), value_set=large(left.table["path"]))
    return sorted(archived.filter(are_left).to_pylist())


def refuse_archived(storage: FsspecStorage, paths: list[str], or_else: str = "") -> None:
    """See that no input has to be restored before it can be read.

    Args:
        storage: where the inputs lie.
        paths: of what may be archived, in order.
        or_else: what else can be done than to restore them.

    Raises:
        InvalidSpec: says how many have, which first, and the ways out.
    """
    readable = asked_at_once(partial(is_restored, storage.filesystem), paths)
    shut = [path for path, is_open in zip(paths, readable, strict=True) if not is_open]
    if shut:
        problem = (
            f"is the first of {counted(len(shut), 'input')} archived in S3 (storage class GLACIER "
            "or DEEP_ARCHIVE), which cannot be read until restored: restore them, then run "
            f"again{or_else}"
        )
        raise InvalidSpec.at("source.path", shut[0], problem)
