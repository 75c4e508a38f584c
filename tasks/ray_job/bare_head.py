"""A Ray that one job starts for itself, without what only clusters have a use for."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NO_FIGURES = {"RAY_enable_metrics_collection": "0", "RAY_event_stats": "0"}
"""What every process would keep of itself, for pages that are not there: a quarter of the CPU of
those that wait. Whoever wants it, for a scraper of theirs, sets these to 1."""


@contextmanager
def bare_head() -> Iterator[None]:
    """Have a Ray that begins meanwhile start neither an autoscaler nor a dashboard's server.

    Nothing grows on this machine, and the server would have no pages. Ray starts both unasked, and
    waits for the second: a second or two of a job's start, and of a core.
    """
    import ray._private.node

    usual: Any = ray._private.node.Node

    class BareHead(usual):
        """Starts the rest."""

        def start_monitor(self) -> None:
            """The autoscaler."""

        def start_api_server(self, **_: object) -> None:
            """The dashboard's server."""

    for name, value in NO_FIGURES.items():
        os.environ.setdefault(name, value)  # all that it starts inherit it
    ray._private.node.Node = BareHead
    try:
        yield
    finally:
        ray._private.node.Node = usual
