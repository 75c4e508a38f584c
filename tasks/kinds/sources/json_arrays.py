"""Tells files of one JSON array, or of objects over several lines, from an object a line."""

import re
from collections.abc import Sequence
from itertools import takewhile

from tasks.errors import InvalidSpec
from tasks.kinds.sources.compressed import DamagedFile
from tasks.kinds.sources.text import blocks
from tasks.protocol.object_stat import Stat
from tasks.protocol.storage import FsspecStorage

OTHERS = {
    "one JSON array": (re.compile(rb"\s*\[\s*\{"), "'.[]'"),
    "JSON over several lines": (re.compile(rb"\s*\{[ \t]*[\r\n]\s*[\"}]"), "."),
}
"""What files may hold, how they begin then, and what jq makes an object a line of it by."""
INPUTS_TO_LOOK_AT = 8


def refuse_other_json(storage: FsspecStorage, inputs: Sequence[Stat]) -> None:
    """See that not all of some files hold a JSON array, or objects over several lines.

    Raises:
        InvalidSpec: they do.
    """
    some = inputs[:INPUTS_TO_LOOK_AT]
    looked_at = (other_json(storage, stat) for stat in some)
    held = [each for each in takewhile(bool, looked_at) if each]  # as a rule one is looked at
    if some and len(held) == len(some):
        problem = (
            f"is {held[0]}, but jsonl needs one object per line: convert the file, for example "
            f"with jq -c {OTHERS[held[0]][1]} FILE.json > FILE.jsonl"
        )
        raise InvalidSpec.at("source.path", inputs[0].path, problem)


def other_json(storage: FsspecStorage, stat: Stat) -> str | None:
    """What a file holds, where it is JSON and not an object a line."""
    with storage.open(stat.path) as file:
        try:
            beginning = next(blocks(file, stat.path), b"")
        except DamagedFile:
            return None
    return next((name for name, (begins, _) in OTHERS.items() if begins.match(beginning)), None)
