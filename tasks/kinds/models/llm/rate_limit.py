"""How fast a replica may ask."""

import asyncio
import time


class Pace:
    """So many units a minute at most, spread evenly; and a pause where the server wants one."""

    def __init__(self, per_minute: float | None) -> None:
        self.seconds_each = 60 / per_minute if per_minute else 0.0
        self.free_at = 0.0
        self.paused_until = 0.0

    async def take(self, units: float = 1) -> None:
        """Wait for one's turn."""
        starts = max(time.monotonic(), self.free_at)
        self.free_at = starts + units * self.seconds_each
        while (wait := max(starts, self.paused_until) - time.monotonic()) > 0:
            await asyncio.sleep(wait)

    def correct(self, units: float) -> None:
        """What was taken turned out to be so many units more, or less."""
        self.free_at += units * self.seconds_each

    def pause(self, seconds: float) -> None:
        """Let nobody begin for so long."""
        self.paused_until = max(self.paused_until, time.monotonic() + seconds)
