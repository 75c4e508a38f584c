"""How long who lost a race for the next version waits, so as not to meet the same others again."""

import random
from collections.abc import Iterator
from itertools import count

LONGEST_WAIT_SECONDS = 2.0
DOUBLINGS = 10
"""After which that is reached."""


def waits() -> Iterator[float]:
    """Seconds to wait after each attempt: longer and longer, and not as long as the others.

    After the first none: its reply may have got lost.
    """
    for attempt in count():
        longest = 0.01 * (2 ** min(attempt, DOUBLINGS) - 1)
        yield random.uniform(0, min(LONGEST_WAIT_SECONDS, longest))
