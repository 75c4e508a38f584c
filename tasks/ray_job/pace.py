"""How many rows a stage takes at a time, by how long they take and what comes of them."""

import math
from dataclasses import dataclass

EMIT_EVERY_SECONDS = 30.0
"""What a stage has done is handed on so often."""
CALL_SECONDS = 24.0
"""That a call takes at most where as many rows are at hand: of more rows, sorted by length, fewer
tokens are padding, and threads wait for each other wherever a call ends."""
BYTES_PER_CALL = 64 << 20
"""That come out of a call, about."""
MOST_TIMES = 8
"""As many rows as before: those to come may be longer."""


@dataclass
class Pace:
    """Rows taken at a time where all at hand would be too many: found out once, then kept."""

    rows: int = 64
    least: int = 1
    most: int = 1 << 20
    call_seconds: float = CALL_SECONDS

    @classmethod
    def fixed(cls, rows: int) -> "Pace":
        """So many at a time, however long they take."""
        return cls(rows, least=rows, most=rows)

    def follow(self, seconds: float, size: int = 0) -> None:
        """So many rows took so long: take more of them next time, or fewer.

        Args:
            seconds: that a call took.
            size: bytes that came of it.
        """
        if seconds > EMIT_EVERY_SECONDS or size > BYTES_PER_CALL:
            self.rows = max(self.least, self.rows // 4)
            return
        by_time = self.call_seconds / seconds if seconds > 0 else MOST_TIMES
        by_size = BYTES_PER_CALL / size if size else MOST_TIMES
        doublings = int(math.log2(min(MOST_TIMES, by_time, by_size)))  # none where it is under two
        if doublings > 0:
            self.rows = max(self.rows, min(self.rows << doublings, self.most))

    def shrink(self) -> bool:
        """Take fewer rows from here on, if it may; whether it does."""
        if self.rows > self.least:
            self.rows = self.most = max(self.least, self.rows // 4)
            return True
        return False
