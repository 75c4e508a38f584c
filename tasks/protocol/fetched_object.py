"""An object that is fetched and found to be the one that was listed, in one request."""

from io import BytesIO
from typing import IO

from tasks.protocol.azure_client import whole_blob
from tasks.protocol.google_client import whole_object
from tasks.protocol.object_stat import Stat, Whole
from tasks.protocol.quick_objects import LARGEST_BYTES
from tasks.protocol.storage import FsspecStorage


class FetchedObject(FsspecStorage):
    """A storage of which one object is here already."""

    def __init__(self, storage: FsspecStorage, stat: Stat, data: bytes) -> None:
        super().__init__(storage.filesystem)
        self.fetched, self.data = stat, data

    def read(self, path: str) -> bytes:
        """Return the object's bytes."""
        return self.data if path == self.fetched.path else super().read(path)

    def open(self, path: str) -> IO[bytes]:
        """Open for streaming reads."""
        return BytesIO(self.data) if path == self.fetched.path else super().open(path)

    def stat(self, path: str) -> Stat | None:
        """What was at `path` when it was fetched."""
        return self.fetched if path == self.fetched.path else super().stat(path)


def with_object(storage: FsspecStorage, stat: Stat) -> FsspecStorage:
    """The storage, with an object where it can be had so and is the one that is wanted.

    Args:
        storage: where it lies.
        stat: path, size and identity of the object, as it was listed.
    """
    found = None if stat.size > LARGEST_BYTES else whole(storage, stat.path)
    if found is None or found.identity != stat.identity:
        return storage
    return FetchedObject(storage, stat, found.data)


def whole(storage: FsspecStorage, path: str) -> Whole | None:
    """An object with its identity, by one request; None where it could not be had so."""
    if storage.quick:
        return storage.quick.read(path)
    ask = whole_blob if storage.is_azure else whole_object if storage.is_google else None
    if ask is None or storage.filesystem.version_aware:
        return None
    try:
        return ask(storage.filesystem, path)
    except Exception:  # of any kind: it is asked for again in the usual way, which says it
        return None
