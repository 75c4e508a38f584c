"""Stops a job that sets aside more rows than the run may be published without."""

import time
from typing import NamedTuple

from tasks.counted import counted
from tasks.errors import ErrorBudgetExceeded
from tasks.protocol.ranges import IdRanges
from tasks.protocol.records import Record, load_records
from tasks.ray_job.counts import Snapshot
from tasks.ray_job.job import Job

LOOK_EVERY_SECONDS = 5.0
SHARE_OF_TIME = 0.1
"""Of a run with very many records, a look at them takes long."""


class Recorded(NamedTuple):
    """Rows that the run's records say something of, each counted once."""

    rows: int
    """All, those of earlier attempts too."""
    rejected: int
    """Those set aside that no record has as done."""


class Budget:
    """Early, so that nobody pays for a run that is not published; who publishes looks again."""

    def __init__(self, job: Job, *, counts_once: bool) -> None:
        """Of a job.

        Args:
            job: whose budget.
            counts_once: whether a row is counted once. What Ray does again, since a process or a
                node was lost, is counted again: then the records have the last word.
        """
        self.job = job
        self.counts_once = counts_once
        self.look_at = 0.0
        self.known: dict[str, Record] = {}
        """Records that were read, by path."""

    def check(self, counts: Snapshot) -> None:
        """See what was set aside so far: of all rows, or, total unknown, of those seen so far.

        An attempt begins with the rows that earlier ones set aside: of what it has seen itself
        they may be all, so that what is recorded counts too.

        Raises:
            ErrorBudgetExceeded: it is too much; says how many.
        """
        budget, seen = self.job.spec.errors, counts["read"]["rows"]
        rejected = sum(count["rejected"] for count in counts.values())
        total = self.job.pins["known_rows"]
        of = seen if total is None else total
        if (total is None and seen < budget.minimum_rows) or budget.allows(rejected, of):
            return
        if total is None or not self.counts_once:
            recorded = self.recorded()
            if recorded is None:
                return
            of = max(seen, recorded.rows) if total is None else total
            rejected = rejected if self.counts_once else recorded.rejected
        if not budget.allows(rejected, of):
            raise ErrorBudgetExceeded(
                f"{rejected:,} of {counted(of, 'row')} set aside, more than {budget.in_words} "
                "allow; nothing was published"
            )

    def recorded(self) -> Recorded | None:
        """What the records say; None where it is too soon to look again, or they cannot be had."""
        begun = time.monotonic()
        if begun < self.look_at:
            return None
        try:
            records = load_records(self.job.storage, self.job.run, self.known)
        except OSError:  # a storage that is away for a moment ends no job
            self.look_at = begun + LOOK_EVERY_SECONDS
            return None
        # Under plans that this one supersedes rows were done too; what was set aside of an input
        # that has changed since is not held against the run.
        settled = IdRanges.of(each.settled for each in records)
        aside = IdRanges.of((each.rejected,) for each in records if each.plan == self.job.plan)
        now = time.monotonic()
        self.look_at = now + max(LOOK_EVERY_SECONDS, (now - begun) / SHARE_OF_TIME)
        return Recorded(len(settled | aside), len(aside - settled))
