"""Finds files folder by folder, where a store has no listing of all that lies below one.

fsspec leaves a folder out that it cannot list, as if nothing lay there: its files would be passed
over, and nobody told.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from fsspec.asyn import AsyncFileSystem
from fsspec.spec import AbstractFileSystem
from fsspec.utils import glob_translate

from tasks.protocol.client_errors import refusal_of
from tasks.protocol.object_stat import Info, IsNeedless, is_none, unless_needless
from tasks.protocol.s3_pages import before_magic

NOT_THERE = (FileNotFoundError, NotADirectoryError)
"""What is said of a path at which nothing is, or which leads through a file."""
ListFolder = Callable[[str], Iterable[Info]]
"""Gives what lies in a folder, and perhaps that itself; nothing where it is not there."""


def goes_by_folders(filesystem: Any) -> bool:
    """Whether fsspec would find files of it so."""
    kind = type(filesystem)
    if isinstance(filesystem, AsyncFileSystem):
        return bool(kind._find is AsyncFileSystem._find)
    return bool(kind.find is AbstractFileSystem.find)


def listed(filesystem: Any, is_needless: IsNeedless, folder: str) -> list[Info]:
    """What fsspec says that lies in a folder; nothing where it is not there, or no more.

    Raises:
        OSError: it cannot be listed.
    """
    with unless_needless(folder, is_needless), refusal_of(folder), suppress(*NOT_THERE):
        found: list[Info] = filesystem.ls(folder, detail=True)
        return found
    return []


def inside(found: Iterable[Info], folder: str) -> Iterator[Info]:
    """What lies in a folder, without that itself, which some stores list too."""
    own = folder.rstrip("/")
    return (info for info in found if info["name"].rstrip("/") != own)


def found_below(filesystem: Any, path: str, is_needless: IsNeedless = is_none) -> Iterator[Info]:
    """Infos of all files below a folder, or of the file that a path is.

    Raises:
        OSError: a folder cannot be listed.
    """
    folders: list[str] = []
    with suppress(*NOT_THERE):
        info = filesystem.info(path)
        if info["type"] == "directory":
            folders.append(path)
        else:
            yield info
    while folders:
        folder = folders.pop()
        for info in inside(listed(filesystem, is_needless, folder), folder):
            if info["type"] == "directory":
                folders.append(info["name"])
            else:
                yield info


def matches_of(glob: str, list_folder: ListFolder) -> Iterator[Info]:
    """Infos of the files and folders that a glob matches, as fsspec would have them.

    Args:
        glob: with a folder before its first pattern.
        list_folder: asked for each folder that may lead to a match, and for no other.

    Raises:
        OSError: such a folder cannot be listed.
    """
    above, _ = before_magic(glob)
    parts = glob[len(above) + 1 :].split("/")
    whole = re.compile(glob_translate(glob))
    partly = [
        re.compile(glob_translate("/".join([above, *parts[:depth]])))
        for depth in range(1, len(parts))
    ]

    def leads_on(folder: str, depth: int) -> bool:
        if "**" in parts[:depth]:
            return True
        return depth < len(parts) and bool(partly[depth - 1].match(folder))

    def below(folder: str, depth: int) -> Iterator[Info]:
        for info in inside(list_folder(folder), folder):
            name, is_folder = info["name"].rstrip("/"), info["type"] == "directory"
            if whole.match(name) or (is_folder and parts[-1] == "**" and whole.match(f"{name}/")):
                yield info
            if is_folder and leads_on(name, depth):
                yield from below(name, depth + 1)

    return below(above, 1)
