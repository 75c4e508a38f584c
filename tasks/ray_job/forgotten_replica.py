"""A replica that Ray takes for dead ends itself: else its process would hold its GPU for ever.

Ray ends replicas by telling their processes. Seen about once in fifty jobs whose driver ended while
a replica was being made: nobody told that one, and it outlived its job.
"""

import os
import threading
import time
from contextlib import suppress

import ray
from ray._private.state import state

LOOK_EVERY_SECONDS = 60.0
LOOKS = 2
"""Looks in a row at which it is said to be dead: one that is about to end does so before that."""


def end_if_forgotten() -> None:
    """Look again and again, while this process lives, whether Ray still counts on its actor."""
    threading.Thread(target=look_on, name="end-if-forgotten", daemon=True).start()


def look_on() -> None:
    """Look until Ray takes this process's actor for dead, and end the process."""
    looks = 0
    while looks < LOOKS:
        time.sleep(LOOK_EVERY_SECONDS)
        with suppress(Exception):  # Ray's tables may be away: the next look counts
            looks = looks + 1 if is_dead(ray.get_runtime_context().get_actor_id()) else 0
    with suppress(Exception):
        print("Ray considers this replica dead, so its process ends", flush=True)
    os._exit(1)  # another thread may be within the model


def is_dead(actor_id: str | None) -> bool:
    """Whether Ray's tables say that an actor is dead, and will not be begun again."""
    return actor_id is not None and state.actor_table(actor_id).get("State") == "DEAD"
