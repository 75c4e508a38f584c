"""Files whose pages are this process's memory, as weights are: written over, they are another's."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

MAPS = Path("/proc/self/maps")
WITH_PATH = 6
"""Fields of a line that names a file: addresses, permissions, offset, device, inode, path."""
Stamp = tuple[int, int, int, int]


@dataclass
class MappedFiles:
    """Those that are mapped when this is made, but for code and memory that processes share."""

    stamps: dict[str, Stamp] = field(default_factory=lambda: stamps_of(mapped_data()))

    def were_written_over(self) -> bool:
        """Whether one was since it was last asked; those are looked at no more.

        Another file of that name is not the one that is mapped.
        """
        now, before = stamps_of(self.stamps), self.stamps
        self.stamps = {path: each for path, each in now.items() if each == before[path]}
        return any(now[path][:2] == before[path][:2] for path in {*now} - {*self.stamps})


def mapped_data() -> list[str]:
    """Paths of the files that are mapped, and hold no code; none where only Linux would say."""
    if not MAPS.exists():
        return []
    lines = [line.split(maxsplit=WITH_PATH - 1) for line in MAPS.read_text().splitlines()]
    found = [(each[-1], "x" in each[1]) for each in lines if len(each) == WITH_PATH]
    code = {path for path, is_code in found if is_code}
    return sorted({path for path, _ in found if path.startswith("/")} - code)


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
