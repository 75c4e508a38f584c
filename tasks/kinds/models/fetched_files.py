"""Files of models that lie elsewhere, fetched once for all replicas of a node."""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tasks.errors import InputChanged
from tasks.protocol.object_stat import Stat
from tasks.protocol.storage import FsspecStorage
from tasks.temporary_folder import own_folder

MODELS = "models"
"""In the folder of this user's own: who could write there would say what is predicted."""
KEPT_SECONDS = 30 * 24 * 3600.0
"""A model that no replica has wanted for so long is removed: one that is trained each night would
fill the disk."""
LOCK = ".lock"

Files = dict[str, Stat]
"""By their names in the model's folder."""


def fetched(storage: FsspecStorage, path: str, files: Files) -> Path:
    """The folder on this node that has a model's files.

    Args:
        storage: where they lie.
        path: of the model there.
        files: as they are listed.

    Raises:
        InputChanged: another model was written there meanwhile.
        InvalidSpec: this node has no temporary folder of our own.
    """
    models = own_folder() / MODELS
    folder = models / key_of(storage, path, files)
    with alone_with(folder):
        if not all((folder / name).exists() for name in files):
            remove_unwanted(models)
            shutil.rmtree(folder, ignore_errors=True)  # who tidies up temporary files was here
            fetch(storage, files, folder)
    return folder


def key_of(storage: FsspecStorage, path: str, files: Files) -> str:
    """What stands for a model's files, as they are and where they lie.

    By size and time of writing alone one is not told from another, elsewhere, of the same layers.
    """
    known = {name: (each.size, each.identity) for name, each in files.items()}
    place = [storage.store, storage.url_of(path), known]
    return hashlib.sha256(json.dumps(place).encode()).hexdigest()


@contextmanager
def alone_with(folder: Path) -> Iterator[None]:
    """Wait while another process of this node is busy with a folder, such as a second replica."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with lock_of(folder).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # let go of with the file, also by a process that dies
        os.utime(lock.fileno())
        yield


def lock_of(folder: Path) -> Path:
    """The file that one is alone with; its time says when the folder was wanted last."""
    return folder.with_name(f".{folder.name}{LOCK}")


def unfinished_of(folder: Path) -> Path:
    """Where the folder's files are until all are there."""
    return folder.with_name(f".{folder.name}.unfinished")


def fetch(storage: FsspecStorage, files: Files, folder: Path) -> None:
    """Copy files into a folder that is there whole or not at all, while alone with it.

    Raises:
        InputChanged: one is another by now: what was copied may be half of each.
    """
    unfinished = unfinished_of(folder)
    shutil.rmtree(unfinished, ignore_errors=True)
    for name, stat in files.items():
        target = unfinished / name
        target.parent.mkdir(parents=True, exist_ok=True)
        storage.filesystem.get_file(stat.path, str(target))
    for stat in files.values():
        if storage.stat(stat.path) != stat:
            shutil.rmtree(unfinished)
            raise InputChanged(
                f"model.path: {storage.url_of(stat.path)!r} was replaced while it was downloaded"
            )
    unfinished.rename(folder)


def remove_unwanted(models: Path) -> None:
    """Remove models that no replica has wanted for long; what is in use stays readable."""
    oldest = time.time() - KEPT_SECONDS
    for lock in models.glob(f".*{LOCK}"):
        with suppress(OSError), lock.open("a") as held:  # others may be busy with it
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(held.fileno()).st_mtime < oldest:
                folder = lock.with_name(lock.name.removeprefix(".").removesuffix(LOCK))
                shutil.rmtree(folder, ignore_errors=True)
                shutil.rmtree(unfinished_of(folder), ignore_errors=True)
