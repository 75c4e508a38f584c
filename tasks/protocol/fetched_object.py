"""An object that is fetched and found to be the one that was listed, in one request."""

from tasks.protocol.object_stat import Stat
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

    def stat(self, path: str) -> Stat | None:
        """What was at `path` when it was fetched."""
        return self.fetched if path == self.fetched.path else super().stat(path)


def with_object(storage: FsspecStorage, stat: Stat) -> FsspecStorage:
    """The storage, with an object where it can be had so and is the one that is wanted.

    Args:
        storage: where it lies.
        stat: path, size and identity of the object, as it was listed.
    """
    if storage.quick is None or stat.size > LARGEST_BYTES:
        return storage
    found = storage.quick.read(stat.path)
    if found is None or found.identity != stat.identity:
        return storage
    return FetchedObject(storage, stat, found.data)
