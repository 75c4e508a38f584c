"""Hashes what is written, without keeping it."""

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import hashlib


class HashedFile(io.RawIOBase):
    """A file of which only the hash is kept."""

    def __init__(self, digest: "hashlib._Hash") -> None:
        self.digest = digest

    def writable(self) -> bool:
        """It can only be written."""
        return True

    def write(self, data: Any) -> int:
        """Take some more of it."""
        self.digest.update(data)
        return len(data)
