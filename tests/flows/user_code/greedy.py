"""Models that run out of memory, and mean it."""

import resource
from pathlib import Path
from typing import Any

import numpy as np


class Greedy:
    """Has memory for ten rows at a time."""

    def __init__(self) -> None:
        self.refused = 0

    def allocate(self, count: int) -> None:
        """Take what so many rows need."""
        if count > 10:
            np.empty(1 << 60, np.uint8)  # more than any machine has

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        count = len(batch["id"])
        try:
            self.allocate(count)
        except MemoryError:
            self.refused = max(self.refused, count)
            raise
        return {"most_refused": np.full(count, self.refused)}


class Confined(Greedy):
    """Needs 100 MiB a row, in a process to which the system gives 1 GiB more than it has."""

    def __init__(self) -> None:
        super().__init__()
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (1 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))

    def allocate(self, count: int) -> None:
        np.empty(count * (100 << 20), np.uint8)
