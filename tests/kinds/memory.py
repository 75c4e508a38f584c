"""What a process has in memory, as Linux tells it."""

import re
from dataclasses import dataclass
from pathlib import Path

MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ ")


@dataclass
class Memory:
    """Bytes of a process, with regard to one file."""

    seen: int = 0
    """Of the file, mapped by the process and read."""
    share: int = 0
    """The process's share of these: a page in the memory of four counts a quarter with each."""
    own: int = 0
    """Of the process alone, whatever they are for; no file has them."""


def memory_of(process: int | str, file: Path | str) -> Memory:
    """What a process holds, of a file and for itself.

    Args:
        process: its id, or `self`.
        file: a path, or the end of one.

    Raises:
        OSError: the process is gone.
    """
    memory, of_file = Memory(), False
    for line in Path(f"/proc/{process}/smaps").read_text().splitlines():
        if MAPPING.match(line):
            of_file = line.endswith(str(file))
            continue
        name, _, value = line.partition(":")
        if name == "Anonymous":
            memory.own += int(value.split()[0]) * 1024
        elif name == "Rss" and of_file:
            memory.seen += int(value.split()[0]) * 1024
        elif name == "Pss" and of_file:
            memory.share += int(value.split()[0]) * 1024
    return memory
