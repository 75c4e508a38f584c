"""Files whose pages are this process's memory, as weights are: written over, they are another's."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

MAPS = Path("/proc/self/maps")
WITH_PATH = 6
"""Fields of a line that names a file: addresses, permissions, offset, device, inode, path."""
Stamp = tuple[int, int, int, int]


class MappedFiles:
    """Those of some places that are mapped when this is made.

    Args:
        places: files and folders; those that are elsewhere are none that somebody writes to.
    """

    def __init__(self, places: Iterable[str]) -> None:
        files = {os.path.realpath(each) for place in places for each in files_of(place)}
        self.stamps = stamps_of(files & mapped())

    def look(self, when_written: Callable[[], None]) -> None:
        """Call it where one was written to since the last look; what it raises ends the look.

        Another file of that name is not the one that is mapped, and is looked at no more.
        """
        now, before = stamps_of(self.stamps), self.stamps
        same = {path: each for path, each in now.items() if each[:2] == before[path][:2]}
        if any(each != before[path] for path, each in same.items()):
            when_written()
        self.stamps = same


def files_of(place: str) -> list[Path]:
    """A file, or those of a folder; none where the place is on no disk of this machine."""
    path = Path(place.removeprefix("file://")).expanduser()
    return [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]


def mapped() -> set[str]:
    """Paths of the files that are mapped; none where only Linux would say."""
    if not MAPS.exists():
        return set()
    lines = os.fsdecode(MAPS.read_bytes()).split("\n")
    parts = (line.split(maxsplit=WITH_PATH - 1) for line in lines)
    return {each[-1] for each in parts if len(each) == WITH_PATH}


def stamps_of(paths: Iterable[str]) -> dict[str, Stamp]:
    """Which file each path names, and how it was left; those that are gone name none."""
    stamps = {}
    for path in paths:
        try:
            found = os.stat(path)
        except OSError:
            continue
        stamps[path] = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
    return stamps
