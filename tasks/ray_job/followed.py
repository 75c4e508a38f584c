"""A job that nobody follows any more stops itself: it may hold GPUs that nobody knows of."""

import time
from dataclasses import dataclass, field

from tasks.errors import Orphaned
from tasks.ray_job.job import Job

LOOK_EVERY_SECONDS = 10.0


@dataclass
class Followed:
    """Watches for signs of a follower, on this process's own clock."""

    job: Job
    seen: bytes = b""
    since: float = field(default_factory=time.monotonic)
    looked: float = 0.0

    def check(self) -> None:
        """Called often; looks now and then.

        Raises:
            Orphaned: nobody has left a sign for `timeouts.orphan_seconds`.
        """
        now, limit = time.monotonic(), self.job.spec.timeouts.orphan_seconds
        if now - self.looked < min(LOOK_EVERY_SECONDS, limit / 4):
            return
        self.looked = now
        try:
            sign = self.job.storage.read(self.job.followed_file)
        except OSError:
            sign = self.seen
        if sign != self.seen:
            self.seen, self.since = sign, now
        if now - self.since > limit:
            raise Orphaned(
                f"no run has followed this job for timeouts.orphan_seconds {limit:g}; run it "
                "again to go on where it stopped"
            )
