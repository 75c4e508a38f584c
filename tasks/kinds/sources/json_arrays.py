"""Tells files that hold one JSON array, as .json files do, from those of an object a line."""

import re
from collections.abc import Sequence

from tasks.errors import InvalidSpec
from tasks.kinds.sources.compressed import DamagedFile
from tasks.kinds.sources.text import blocks
from tasks.protocol.infos import Stat
from tasks.protocol.storage import FsspecStorage

ARRAY = re.compile(rb"\s*\[\s*\{")
INPUTS_TO_LOOK_AT = 8


def refuse_arrays(storage: FsspecStorage, inputs: Sequence[Stat]) -> None:
    """See that not all of some files hold a JSON array, as .json files do.

    Raises:
        InvalidSpec: they do.
    """
    some = inputs[:INPUTS_TO_LOOK_AT]
    if some and all(is_array(storage, stat) for stat in some):  # as a rule one is looked at
        problem = (
            "is one JSON array, and jsonl wants an object a line: convert the file, as in "
            "jq -c '.[]' FILE.json > FILE.jsonl"
        )
        raise InvalidSpec.at("source.path", inputs[0].path, problem)


def is_array(storage: FsspecStorage, stat: Stat) -> bool:
    """Whether a file begins as an array of objects does."""
    with storage.open(stat.path) as file:
        try:
            return ARRAY.match(next(blocks(file, stat.path), b"")) is not None
        except DamagedFile:
            return False
