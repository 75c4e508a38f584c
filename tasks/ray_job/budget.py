"""Stops a job that sets aside more rows than the run may be published without."""

import time

from tasks.counted import counted
from tasks.errors import ErrorBudgetExceeded
from tasks.protocol.ranges import IdRanges
from tasks.protocol.records import load_records
from tasks.ray_job.job import Job
from tasks.ray_job.occupancy import Snapshot

LOOK_EVERY_SECONDS = 5.0
SHARE_OF_TIME = 0.1
"""Of a run with very many records, a look at them takes long."""


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

    def check(self, counts: Snapshot) -> None:
        """See what was set aside so far: of all rows, or of a minimum sample.

        Raises:
            ErrorBudgetExceeded: it is too much; says how many.
        """
        budget, seen = self.job.spec.errors, counts["read"]["rows"]
        rejected = sum(count["rejected"] for count in counts.values())
        total = self.job.pins["known_rows"]
        of = total if total is not None else seen
        allowed = budget.max_rejected_fraction * of
        if (total is None and seen < budget.minimum_rows) or rejected <= allowed:
            return
        if not self.counts_once:
            rejected = self.num_recorded()
        if rejected > allowed:
            raise ErrorBudgetExceeded(
                f"{rejected:,} of {counted(of, 'row')} set aside, more than "
                f"errors.max_rejected_fraction {budget.max_rejected_fraction} allows; nothing was "
                "published"
            )

    def num_recorded(self) -> int:
        """Rows that the records set aside, each once; none where it is too soon to look again."""
        begun = time.monotonic()
        if begun < self.look_at:
            return 0
        records = load_records(self.job.storage, self.job.run)
        own = [record for record in records if record.plan == self.job.plan]
        settled = IdRanges.of(each.ok for each in own) | IdRanges.of(each.filtered for each in own)
        now = time.monotonic()
        self.look_at = now + max(LOOK_EVERY_SECONDS, (now - begun) / SHARE_OF_TIME)
        return len(IdRanges.of(each.rejected for each in own) - settled)
