"""Files of a local disk: whole or not there, and moved wherever they are to go."""

import errno
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

TEMPORARY = ".tmp-"
HALF_WRITTEN = re.compile(rf"{re.escape(TEMPORARY)}[0-9a-f]{{32}}$")


def temporary_path(path: str) -> str:
    """Where a file is written before it bears its name: in the same folder, so on the same disk.

    Hidden: a process may die in between, and who reads a folder of rows would fail on half a file.
    """
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}{TEMPORARY}{uuid.uuid4().hex}"


def is_half_written(path: str) -> bool:
    """Whether a path is one of those."""
    return HALF_WRITTEN.search(path) is not None


@contextmanager
def new_file(path: str) -> Iterator[IO[bytes]]:
    """A file that is on the disk with all that is written to it, or not at all."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = temporary_path(path)
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if os.path.exists(temporary):
            os.remove(temporary)
        if error.filename is None:  # what a write or a flush has failed with names none
            error.filename = path
        raise


def flush(path: str) -> None:
    """See that a file's content, or the names in a folder, are on the disk; it may be gone."""
    try:
        opened = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems flush no folders
            raise
    finally:
        os.close(opened)


def flush_names(path: str) -> None:
    """See that a file's name is on the disk, and those of the folders there that it lies in.

    Also of those that were there: another move may have made them a moment ago.
    """
    for folder in map(str, Path(path).parents):
        with suppress(PermissionError):  # of somebody else, who made it
            flush(folder)
        if os.path.ismount(folder):
            return


def rename(source: str, target: str) -> None:
    """Move a local file; to another disk, as to an output that is a mount, as a copy."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with open(source, "rb") as old, new_file(target) as new:
            shutil.copyfileobj(old, new)
        flush_names(target)
        os.remove(source)
