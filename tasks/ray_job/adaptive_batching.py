"""How many rows a stage takes at a time, by how long they take and what comes of them."""

import math
from dataclasses import dataclass

EMIT_EVERY_SECONDS = 30.0
"""What a stage has done is handed on so often."""
CALL_SECONDS = 24.0
"""The time that a call should take. In longer ones more rows are sorted by length, so that less is
padding, and threads wait for each other less often."""
BYTES_PER_CALL = 64 << 20
"""That come out of a call, about."""
SECONDS_PER_COLUMN = 0.0005
"""A call may take so long for each column, whatever it should: to hand one over and take it back
takes a twentieth of that, however few rows it has."""
MOST_TIMES = 8
"""A call gets at most so many times the rows of the one before: later ones may be longer."""


@dataclass
class Pace:
    """How many rows a call gets where all at hand would be too many.

    It grows while calls are quick, shrinks when they are slow or large, and stays from batch to
    batch.
    """

    rows: int = 64
    least: int = 1
    most: int = 1 << 20
    call_seconds: float = CALL_SECONDS
    next_seconds: float = 0.0
    """That a call of so many rows will take, by the last one."""

    @classmethod
    def fixed(cls, rows: int) -> "Pace":
        """So many at a time, however long they take."""
        return cls(rows, least=rows, most=rows)

    def follow(self, rows: int, seconds: float, size: int = 0, num_columns: int = 0) -> None:
        """Adjust to the last call.

        Args:
            rows: that it got, which may have been fewer than it could have.
            seconds: that it took.
            size: bytes that came of it.
            num_columns: of its rows, or of what came of them.
        """
        if seconds > EMIT_EVERY_SECONDS or size > BYTES_PER_CALL:
            self.rows = max(self.least, min(self.rows, rows // 4))
        else:
            call_seconds = max(self.call_seconds, num_columns * SECONDS_PER_COLUMN)
            by_time = call_seconds / seconds if seconds > 0 else MOST_TIMES
            by_size = BYTES_PER_CALL / size if size else MOST_TIMES
            doublings = int(math.log2(min(MOST_TIMES, by_time, by_size)))
            # Below none, as where a call took longer than it should: it stays.
            self.rows = max(self.rows, min(rows << max(0, doublings), self.most))
        self.next_seconds = seconds * self.rows / rows

    def shrink(self) -> bool:
        """Take fewer rows from here on, if it may; whether it does."""
        if self.rows > self.least:
            self.rows = self.most = max(self.least, self.rows // 4)
            return True
        return False
