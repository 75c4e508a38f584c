"""How large a batch may be: halved each time that memory runs out."""

from dataclasses import dataclass, field


@dataclass
class BatchLimit:
    """How large a batch memory has room for.

    One large row may be all that there was no room for. So larger batches are tried again after
    some calls, and ever more seldom where they have failed once more. What was known when the
    replica started is not tried again: with it a node may have run out, which ends replicas.
    """

    halvings: int = 0
    rows_asked: int = 0
    """Rows that a batch would have, had memory no end; 0 where nobody has asked in rows."""
    patience: int = 8
    """Calls that have to go well before batches are larger again."""
    went_well: int = 0
    """Calls since memory ran out, or batches became larger."""
    is_trial: bool = False
    """Whether batches are larger than where memory ran out last."""
    known: int = field(init=False)
    """Halvings that others have found."""

    def __post_init__(self) -> None:
        self.known = self.halvings

    def rows(self, size: int) -> int:
        """Rows left of a batch of so many."""
        self.rows_asked = size
        return self.of(size)

    def of(self, size: int) -> int:
        """What is left of a size, in rows or tokens; at least 1."""
        return max(1, size >> self.halvings)

    def halve(self, tried: int) -> None:
        """Memory has run out over so many rows, perhaps far fewer than were asked for."""
        self.patience *= 2 if self.is_trial else 1
        self.is_trial, self.went_well = False, 0
        self.halvings += 1
        while self.of(self.rows_asked) >= tried > 1:
            self.halvings += 1

    def take_back(self, halvings: int) -> None:
        """There were so many before smaller batches did not help either."""
        self.halvings = halvings

    def follow(self) -> None:
        """A call had room."""
        if self.halvings == self.known and not self.is_trial:
            return
        self.went_well += 1
        if self.went_well < self.patience:
            return
        self.went_well, self.is_trial = 0, self.halvings > self.known
        self.ease()

    def ease(self) -> None:
        """Enough calls have gone well: batches are twice as large from here on, if any were."""
        self.halvings = max(self.known, self.halvings - 1)
