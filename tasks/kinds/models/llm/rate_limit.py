"""How fast a replica may ask, and what to say where that, or the server, bounds a run."""

import asyncio
import time

AT_LIMIT = 0.8
"""Of a limit, and it is reached: at a call's end the last answers are waited for."""


class Pace:
    """So many units a minute at most, spread evenly; and a pause where the server wants one."""

    def __init__(self, per_minute: float | None) -> None:
        self.seconds_each = 60 / per_minute if per_minute else 0.0
        self.free_at = 0.0
        """By a clock that stands still in pauses."""
        self.paused_until = 0.0
        self.put_off = 0.0
        """Seconds of all pauses: turns are as far apart after one as they were before."""

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self.seconds_each > 0

    async def take(self, units: float = 1) -> None:
        """Wait for one's turn."""
        turn = max(max(time.monotonic(), self.paused_until) - self.put_off, self.free_at)
        self.free_at = turn + units * self.seconds_each
        while (wait := turn + self.put_off - time.monotonic()) > 0:
            await asyncio.sleep(wait)

    def correct(self, units: float) -> None:
        """What was taken turned out to be so many units more, or less."""
        self.free_at += units * self.seconds_each

    def pause(self, seconds: float) -> None:
        """Let nobody begin for so long, nor all at once then."""
        now = time.monotonic()
        until = max(self.paused_until, now + seconds)
        self.put_off += until - max(self.paused_until, now)
        self.paused_until = until


def bound_of(
    asked: float,
    concurrency: int,
    requests_per_minute: float | None,
    tokens_per_minute: float | None,
) -> str:
    """What bounds replicas that ask all the time: a limit of theirs that is reached, or the server.

    Each replica more asks the server for as much again, whatever limit that has set.

    Args:
        asked: requests a minute of one replica.
        concurrency: of these in flight.
        requests_per_minute: its limit.
        tokens_per_minute: its limit.
    """
    if requests_per_minute is not None and asked >= AT_LIMIT * requests_per_minute:
        return keeping("requests_per_minute", requests_per_minute)
    waits = waiting(asked, concurrency)
    if tokens_per_minute is None:
        return waits
    # How many tokens a request has, nobody has counted.
    keeps = keeping("tokens_per_minute", tokens_per_minute)
    tokens = f" than {rounded(tokens_per_minute / asked)}" if asked else ""
    return f"{keeps}; or, if its requests have fewer tokens{tokens}, {waits}"


def waiting(asked: float, concurrency: int) -> str:
    """What to say of a server that bounds it."""
    answered = ""
    if asked:
        rate = f"{rounded(asked)} requests a minute of a replica"
        seconds = rounded(60 * concurrency / asked)
        answered = f", which answers {rate}, each in {seconds} s at most on average"
    more = f"raise model.concurrency {concurrency} if it can answer more at a time"
    return f"it waits for its server{answered}: {more}"


def keeping(name: str, limit: float) -> str:
    """What to say of a limit of its own that bounds it."""
    told = f"model.{name} {limit:.15g}"
    return f"each replica keeps {told} separately: raise that if the server allows more"


def rounded(number: float) -> str:
    """A number of which three digits count."""
    return f"{float(f'{number:.3g}'):,.12g}"
