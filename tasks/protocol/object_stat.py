"""What fsspec says of objects, and a disk itself: which there are, their identity, size and age."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from stat import S_ISREG
from typing import Any, NamedTuple

Info = dict[str, Any]
"""What fsspec says of an object."""
IsNeedless = Callable[[str], bool]
"""Says of a folder whether nothing in it is wanted."""

GOOGLES = "storage#object"
OF_THE_SYSTEM = "lost+found"
"""Folder in each disk of Linux's own, for root alone, where repairs put what they find."""
OTHER_STAMPS = ("blob_id", "xet_hash", "modificationTime")
"""Of Hugging Face and WebHDFS; looked at last, so that what was published stays as it is known."""


def is_none(folder: str) -> bool:
    """Of each folder, that something in it may be wanted."""
    return False


@dataclass(frozen=True, slots=True)
class Stat:
    """What storage knows about an object; `identity` changes when its content does."""

    path: str
    size: int
    identity: str


class Whole(NamedTuple):
    """An object with what it holds."""

    data: bytes
    identity: str
    """As `Stat` has it."""


@dataclass(frozen=True)
class Lying:
    """How an object lies there; `modified` in seconds since the epoch."""

    size: int
    modified: float


def stat_if_there(info: Info) -> Stat | None:
    """An info as a Stat; None where the file is gone since the folder was listed."""
    try:
        return stat_of(info)
    except FileNotFoundError:
        return None


def stat_local(path: str) -> Stat | None:
    """What a disk has at `path`: as a listing says it, or None where there is no file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    if not S_ISREG(found.st_mode):
        return None
    return Stat(path, found.st_size, f"{found.st_mtime_ns}-{found.st_size}")


def is_no_file(info: Info) -> bool:
    """Whether it is a pipe, a socket or a device of this machine.

    Whoever opens a pipe waits until somebody writes to it.
    """
    return info.get("type") == "other" and not info.get("islink")


def used_up(infos: dict[str, Info]) -> Iterator[Info]:
    """Infos one by one, each let go once it was looked at: there may be millions."""
    for name in list(infos):
        yield infos.pop(name)


def find_local(filesystem: Any, folder: str, is_needless: IsNeedless = is_none) -> Iterator[Info]:
    """Infos of all files below a folder on a local disk.

    fsspec leaves a nested folder out that it may not list, as if nothing lay there. Whether a link
    to a folder is one is for `filesystem` to say; fsspec's own says no.

    Raises:
        OSError: a folder cannot be listed.
    """
    folders = [folder]
    while folders:
        folder = folders.pop()
        # What is deleted meanwhile is not there; any other trouble is an error.
        closed = unless_needless(folder, is_needless)
        with suppress(FileNotFoundError), closed, os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    info = filesystem.info(entry)
                    if info["type"] == "directory":
                        folders.append(entry.path)
                        continue
                    if not info["islink"]:
                        # The entry has it, which fsspec has asked; its own time is less exact.
                        info["mtime_ns"] = entry.stat(follow_symlinks=False).st_mtime_ns
                    yield info


@contextmanager
def unless_needless(folder: str, is_needless: IsNeedless) -> Iterator[None]:
    """Listing a folder; one that is closed to this user is passed over if nobody wants it.

    Nor is the system's own of each disk anybody's.

    Raises:
        PermissionError: another folder is closed.
    """
    try:
        yield
    except PermissionError:
        if os.path.basename(folder.rstrip("/")) != OF_THE_SYSTEM and not is_needless(folder):
            raise


def stat_of(info: Info) -> Stat:
    """An fsspec info as a Stat: ETag, else modification time and size.

    No version id: S3's listings lack it, and what is listed must equal what is looked up.
    """
    size = int(info["size"] or 0)
    identity = info.get("ETag") or info.get("etag") or f"{modified(info)}-{size}"
    if info.get("kind") == GOOGLES:  # whose ETag is another when a note on the object is
        identity = info["generation"]
    return Stat(path=info["name"], size=size, identity=str(identity).strip('"'))


def modified(info: Info) -> int | str:
    """Modification time, in nanoseconds where the disk has them; else what names the content."""
    if "mtime_ns" in info:
        return int(info["mtime_ns"])
    if "ino" in info:
        return os.stat(info["name"]).st_mtime_ns
    names = ("mtime", "LastModified", "last_modified", "Last-Modified", *OTHER_STAMPS)
    return str(next((info[name] for name in names if info.get(name)), ""))


def modified_seconds(info: Info) -> float | None:
    """When an object was written, in seconds since the epoch; None where nobody knows."""
    names = ("mtime", "LastModified", "last_modified", "updated")
    when = next((info[name] for name in names if info.get(name)), None)
    if isinstance(when, str):
        when = datetime.fromisoformat(when)
    if isinstance(when, datetime):
        return when.timestamp()
    return None if when is None else float(when)
