"""Local folders whose entries may be links: fsspec does not look where they lead."""

import os
from functools import lru_cache
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from tasks.protocol.object_stat import Info
from tasks.protocol.storage import FsspecStorage


class LinkedFiles(LocalFileSystem):
    """fsspec's, which says of links among a folder's entries what they lead to."""

    def info(self, path: Any, **kwargs: Any) -> Info:
        """What fsspec says; a link that leads nowhere is a file, for its name to be told.

        Raises:
            FileNotFoundError: it is a link to a folder that it lies in, so no way leads further.
        """
        found: Info = super().info(path, **kwargs)
        if isinstance(path, os.DirEntry) and found["islink"]:
            if os.path.isdir(path):
                refuse_loop(path.path)
                found["type"] = "directory"
            elif os.path.isfile(path) or not os.path.exists(path):
                found["type"] = "file"
        return found


def refuse_loop(link: str) -> None:
    """See that a link leads to none of the folders that lead to it.

    Raises:
        FileNotFoundError: it does.
    """
    real, folder = os.path.realpath(link), os.path.dirname(link)
    while os.path.realpath(folder) != real:
        if folder in ("", "/"):
            return
        folder = os.path.dirname(folder)
    raise FileNotFoundError(link)


def without_links(storage: FsspecStorage, path: str) -> str:
    """A path as the links in it lead, by which inputs and outputs are known."""
    return os.path.realpath(path) if storage.is_local else path


class WayThroughLinks:
    """Where links lead of one listed file after the other: of a folder they are followed once."""

    def __init__(self, storage: FsspecStorage) -> None:
        self.storage = storage
        self.real_folder = lru_cache(maxsize=64)(os.path.realpath)

    def __call__(self, info: Info) -> str:
        """The path of a file as `without_links` gives it."""
        path: str = info["name"]
        if not self.storage.is_local or info["islink"]:
            return without_links(self.storage, path)
        folder, name = os.path.split(path)
        return os.path.join(self.real_folder(folder), name)


def linked(storage: FsspecStorage) -> FsspecStorage:
    """The storage; of a local one also what lies behind links."""
    return FsspecStorage(LinkedFiles()) if storage.is_local else storage
