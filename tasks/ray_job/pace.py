"""How many rows a stage takes at a time, by how long they take and what comes of them."""

from dataclasses import dataclass

EMIT_EVERY_SECONDS = 30.0
"""What a stage has done is handed on so often."""
GROW_BELOW_SECONDS = 7.0
"""Four times as many rows then take no longer than that."""
BYTES_PER_CALL = 64 << 20
"""That come out of a call, about."""


@dataclass
class Pace:
    """Rows taken at a time where all at hand would be too many: found out once, then kept."""

    rows: int = 64
    least: int = 1
    most: int = 1 << 20
    grow_below_seconds: float = GROW_BELOW_SECONDS

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
        elif seconds < self.grow_below_seconds and 4 * size <= BYTES_PER_CALL:
            self.rows = max(self.rows, min(4 * self.rows, self.most))

    def shrink(self) -> bool:
        """Take fewer rows from here on, if it may; whether it does."""
        if self.rows > self.least:
            self.rows = self.most = max(self.least, self.rows // 4)
            return True
        return False
