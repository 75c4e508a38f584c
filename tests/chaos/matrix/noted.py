"""What the model has noted: how often it was handed rows, and when rows left it."""

import json
from dataclasses import dataclass
from functools import cached_property
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

    @cached_property
    def departures(self) -> list[float]:
        """When rows left the model that had not left it before."""
        gone: set[int] = set()
        found = []
        for note in self.notes:
            if note["event"] == "went" and not gone.issuperset(note["ids"]):
                gone.update(note["ids"])
                found.append(float(note["at"]))
        return found

    def pause(self, since: float, otherwise: float) -> float:
        """The longest time without a new row from the model, beyond the pace it had before.

        Args:
            since: the moment from which it counts.
            otherwise: where no row was to leave any more, the moment of the run's end.
        """
        before = [at for at in self.departures if at <= since]
        after = [at for at in self.departures if at > since] or [otherwise]
        pace = median(later - sooner for sooner, later in pairwise(before)) if before[1:] else 0.0
        longest = max(later - sooner for sooner, later in pairwise([since, *after]))
        return max(0.0, longest - pace)


def read_notes(folder: Path) -> Noted:
    """Read the notes of all processes."""
    # A line may be half written when its process is killed.
    lines = [line for file in folder.glob("*.log") for line in file.read_text().split("\n")[:-1]]
    return Noted(sorted(map(json.loads, lines), key=lambda note: note["at"]))
