"""Copies in Azure's object store, which may still be made when it has answered."""

import errno
import time
from typing import Any

from fsspec.asyn import sync

LOOK_EVERY_SECONDS = 0.2


def await_copy(filesystem: Any, path: str) -> None:
    """Wait until a copy is whole, before what it is of may be deleted.

    Args:
        filesystem: adlfs's, which does not wait.
        path: of the copy.

    Raises:
        OSError: it was not made.
    """
    while (status := sync(filesystem.loop, copy_status, filesystem, path)) == "pending":
        time.sleep(LOOK_EVERY_SECONDS)
    if status not in (None, "success"):
        raise OSError(errno.EIO, f"the store's copy ended as {status}", path)


async def copy_status(filesystem: Any, path: str) -> str | None:
    """How a copy stands; None where the store says nothing of it."""
    container, blob, _ = filesystem.split_path(path)
    async with filesystem.service_client.get_blob_client(container, blob) as client:
        properties = await client.get_blob_properties()
    status: str | None = properties.copy.status
    return status
