"""Hands a job's log on, in batches, without noise, and not without end."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tasks.clusters.running import RunningJob

EVERY_SECONDS = 5.0
MAX_CHARACTERS = 500_000
PIECE_CHARACTERS = 50_000
"""Of a record: Prefect cuts one of more than a million bytes, as which a character may count
twelve, and of one that is far longer it keeps nothing."""
MAX_SEEN = 5_000_000
"""Noise included."""
FETCHED_PER_SECOND = 50_000
"""Characters on average: all of a log is fetched each time, of a long one more seldom."""
NOISE = re.compile(
    # Progress bars, which end in a carriage return, and Ray's own of each operator.
    r"\r|\d+(\.\d+)?\s?(it|row|block)s?/s\]|^Running(: \d| Dataset)|✔️|^\s*$"
    # What Ray says of settings that are ours, in every job.
    r"|Progress bars disabled|has constructor arguments in the object store"
    # What Ray's workers tell its log monitor.
    r"|^:(actor_name|task_name|job_id):"
)
COLOR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class JobLog:
    """How much of a log has been handed on."""

    seen: int = 0
    told: int = 0
    at: float = 0.0

    def forward(
        self, running: RunningJob, tell: Callable[[str], None], *, now: bool = False
    ) -> None:
        """Hand on what is new, now and then; at the cap say where the rest is."""
        wait = EVERY_SECONDS + self.seen / FETCHED_PER_SECOND
        due = now or time.monotonic() - self.at >= wait
        if not due or self.told > MAX_CHARACTERS:
            return
        self.at = time.monotonic()
        text = running.log()
        # A line that is half written is handed on with its end.
        whole = len(text) if now else text.rfind("\n") + 1
        new, self.seen = text[self.seen : whole], max(self.seen, whole)
        new = COLOR.sub("", new).replace("\0", "\\x00")  # Postgres has none, and Prefect's logs may
        lines = [line for line in new.split("\n") if not NOISE.search(line)]
        batch = "\n".join(lines)
        if self.told + len(batch) > MAX_CHARACTERS or self.seen > MAX_SEEN:
            batch = batch[: MAX_CHARACTERS - self.told] + f"\n... the rest is at {running.where}"
            self.told = MAX_CHARACTERS
        self.told += len(batch)
        for piece in pieces(batch):
            tell(piece)


def pieces(text: str) -> Iterator[str]:
    """A text in pieces that are not too long, each up to the end of a line where it has one."""
    while len(text) > PIECE_CHARACTERS:
        end = text.rfind("\n", 1, PIECE_CHARACTERS + 1)
        size, skipped = (end, 1) if end > 0 else (PIECE_CHARACTERS, 0)
        yield text[:size]
        text = text[size + skipped :]
    if text:
        yield text
