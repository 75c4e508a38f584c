"""How several processes share the tests, where pytest is told `-n`: file by file, long ones first.

Files that use the same cluster go to the same process, so that each cluster is started once; it
ends when the last of them is done, since even an idle one takes a good part of a core.
"""

from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]
CLUSTERS = (
    ("ray_address: ", "ray=True"),
    ("jobs_cluster: ",),
    ("stack: ",),
    ("chaos_session: ",),
)
"""What stands in files that use the same: fixtures as arguments of tests, in the order of what
these take."""
FIRST = (*CLUSTERS, ("mark.cluster",), ("mark.ray",), ("prefect_server",))
"""What stands in the files to be begun first."""


class ByCluster(LoadScopeScheduling):
    """Hands out what belongs together at once."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid)


def share_of(nodeid: str) -> str:
    """A name for the tests that one process gets together: their cluster's, or their file's."""
    file = nodeid.partition("::")[0]
    return next((words[0] for words in CLUSTERS if has_any(file, words)), file)


def end_cluster(item: pytest.Function, nextitem: pytest.Item | None) -> None:
    """End the cluster that a test's file uses, if the next one's does not."""
    share = share_of(item.nodeid)
    if nextitem is None or share == share_of(nextitem.nodeid):
        return
    fixture = share.removesuffix(": ")
    for definition in item.session._fixturemanager.getfixturedefs(fixture, item) or ():
        definition.finish(cast("Any", item._request))


def order_of(nodeid: str) -> int:
    """When a test's file is handed out: 0 goes first."""
    file = nodeid.partition("::")[0]
    return next((n for n, words in enumerate(FIRST) if has_any(file, words)), len(FIRST))


def has_any(file: str, words: tuple[str, ...]) -> bool:
    """Whether one of the words stands in a file."""
    return any(each in text_of(file) for each in words)


@cache
def text_of(file: str) -> str:
    """A file, which says what its tests use: the process that hands them out imports none."""
    return (ROOT / file).read_text()
