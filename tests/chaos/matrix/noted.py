"""What is noted: how often the model was handed rows, when rows left it, and when records came."""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Noted:
    """All notes of a cell, in order."""

    notes: list[dict[str, Any]]

    @property
    def redone(self) -> int:
        """Rows that the model was handed more than once, each time counted."""
        came = [row for note in self.notes if note["event"] == "came" for row in note["ids"]]
        return len(came) - len(set(came))

    def firsts(self, event: str) -> list[float]:
        """When something came of rows or records of which it had not come before."""
        seen: set[int | str] = set()
        found = []
        for note in self.notes:
            if note["event"] == event and not seen.issuperset(note["ids"]):
                seen.update(note["ids"])
                found.append(float(note["at"]))
        return found

    def pause(self, event: str, since: float, otherwise: float) -> float:
        """The longest time without progress, beyond the pace there was before.

        Args:
            event: what progress is: `went` (from the model), `stored` (a record).
            since: the moment from which it counts.
            otherwise: where nothing was to come any more, the moment of the run's end.
        """
        found = self.firsts(event)
        before = [at for at in found if at <= since]
        after = [at for at in found if at > since] or [otherwise]
        pace = median(later - sooner for sooner, later in pairwise(before)) if before[1:] else 0.0
        longest = max(later - sooner for sooner, later in pairwise([since, *after]))
        return max(0.0, longest - pace)


def read_notes(folder: Path) -> Noted:
    """Read the notes of all processes."""
    # A line may be half written when its process is killed.
    lines = [line for file in folder.glob("*.log") for line in file.read_text().split("\n")[:-1]]
    return Noted(sorted(map(json.loads, lines), key=lambda note: note["at"]))
