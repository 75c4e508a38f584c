"""How many rows to try next, where some of them make a function fail."""

from dataclasses import dataclass


@dataclass
class PartSize:
    """How many rows the next part has.

    As many as it took to come to the last guilty row, and twice as many after each part that comes
    through: so most calls get about as many rows as have one guilty among them. To halve the whole
    instead, level by level, takes half as many calls again and hands each row on twice as often.
    """

    rows: int
    suspects: int = 0
    """Where the last part ends that failed: before it there is a guilty row, as far as we know."""
    is_one_guilty: bool = True
    """Not, where what failed last came through in smaller parts: then it is the company."""
    found_at: int = 0

    @classmethod
    def of(cls, rows: int, *, fail: bool) -> "PartSize":
        """The first size.

        Args:
            rows: all there are.
            fail: whether all of them together are known to.
        """
        return cls(half(rows), suspects=rows) if fail else cls(rows)

    def after_failure(self, start: int, stop: int) -> None:
        """The part from `start` to `stop` failed, and was more than a row."""
        self.suspects, self.rows = stop, half(stop - start)

    def after(self, at: int, *, found: bool) -> None:
        """All before `at` is settled.

        Args:
            at: where the next part begins.
            found: whether the last row before it is guilty.
        """
        if found or at == self.suspects:
            self.is_one_guilty = found
            self.rows, self.found_at, self.suspects = at - self.found_at, at, 0
        elif at < self.suspects:
            # That one half came through tells that the other does not; no need to try all of it.
            left = self.suspects - at
            self.rows = half(left) if self.is_one_guilty else left
        else:
            self.rows *= 2


def half(rows: int) -> int:
    """Half of some rows, one at least."""
    return max(1, rows // 2)
