"""What adlfs leaves to whoever uses it.

To wait for copies, to see whose account it asks, and to say which blob it has read or found.
"""

import errno
import time
from typing import Any

from fsspec.asyn import sync

from tasks.protocol.object_stat import Info, Whole

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


def found_by_adlfs(filesystem: Any, folder: str) -> dict[str, Info]:
    """Infos of all blobs below a folder, or of the blob that it is."""
    found: Any = filesystem.find(folder, detail=True)
    if found and isinstance(found, dict):
        return found
    # It has of a blob its name alone, or nothing where it could not ask.
    try:
        info = filesystem.info(folder)
    except FileNotFoundError:
        return {}
    return {folder: info} if info["type"] == "file" else {}


async def copy_status(filesystem: Any, path: str) -> str | None:
    """How a copy stands; None where the store says nothing of it."""
    container, blob, _ = filesystem.split_path(path)
    async with filesystem.service_client.get_blob_client(container, blob) as client:
        properties = await client.get_blob_properties()
    status: str | None = properties.copy.status
    return status


def whole_blob(filesystem: Any, path: str) -> Whole:
    """A blob and its ETag, by one request."""
    return sync(filesystem.loop, downloaded, filesystem, path)


async def downloaded(filesystem: Any, path: str) -> Whole:
    """The same."""
    container, blob, _ = filesystem.split_path(path)
    async with filesystem.service_client.get_blob_client(container, blob) as client:
        found = await client.download_blob()
        return Whole(await found.readall(), str(found.properties.etag).strip('"'))


def refuse_other_account(filesystem: Any) -> None:
    """See that an account that options name is the one that adlfs asks.

    Raises:
        ValueError: it is not: a connection string says all.
    """
    named = filesystem.storage_options.get("account_name")
    if named and filesystem.connection_string and filesystem.service_client.account_name != named:
        raise ValueError(
            f"storage_options.account_name is {named!r}, but AZURE_STORAGE_CONNECTION_STRING has "
            f"{filesystem.service_client.account_name!r}: leave one of them out"
        )
