"""Inputs that lie in an archive of S3, where nobody can read them before they are restored."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.protocol.s3_pages import is_restored
from tasks.protocol.stats import Stats
from tasks.protocol.storage import FsspecStorage
from tasks.protocol.texts import large

LOOKERS = 32


def refuse_archived(storage: FsspecStorage, archived: pa.ChunkedArray, left: Stats) -> None:
    """See that no input that is left to do has to be restored first.

    Args:
        storage: where the inputs lie.
        archived: paths of what the listing says to be archived.
        left: inputs that are not published.

    Raises:
        InvalidSpec: says how many have, which first, and the ways out.
    """
    if not len(archived):
        return
    are_left = pc.is_in(large(archived), value_set=large(left.table["path"]))
    paths: list[str] = sorted(archived.filter(are_left).to_pylist())
    with ThreadPoolExecutor(LOOKERS) as pool:
        readable = pool.map(partial(is_restored, storage.filesystem), paths)
        shut = [path for path, is_open in zip(paths, readable, strict=True) if not is_open]
    if shut:
        problem = (
            f"is the first of {counted(len(shut), 'input')} in an archive of S3 (storage class "
            "GLACIER or DEEP_ARCHIVE), from which nothing can be read: restore them and run again "
            "once that is done, or leave them out by source.exclude"
        )
        raise InvalidSpec.at("source.path", shut[0], problem)
