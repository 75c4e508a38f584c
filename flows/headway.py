"""Counts attempts, and those in a row that have recorded nothing new."""

from dataclasses import dataclass

from tasks.errors import BatchInferenceError
from tasks.protocol.acceptance import Gap


@dataclass
class Headway:
    """Whether attempts get on: whether they record anything new."""

    tried: int = 0
    """Attempts so far."""
    failed: int = 0
    """Those since one recorded something new, itself too where it failed."""
    most_done: int = 0
    """Rows with an outcome, and shards read to their end, where there were most of them."""

    def note(self, before: Gap, after: Gap, problem: BatchInferenceError | None) -> None:
        """Note another attempt.

        Args:
            before: what it had to do.
            after: what it has left.
            problem: that ended it, where one did.
        """
        self.tried += 1
        # What was written before a type was widened is made anew.
        self.most_done = 0 if after.schemas > before.schemas else max(self.most_done, before.done)
        self.failed = int(problem is not None) if after.done > self.most_done else self.failed + 1
