"""Configs that were seen to give the same rows: one output may have the rows of both.

A mended comment in a step's code makes another config, and no other row. Whoever has published rows
predicted again and finds them the same says so, in a file beside the ledger.
"""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from tasks.protocol.asked_at_once import asked_at_once
from tasks.protocol.layout import OutputFolder
from tasks.protocol.read_back import json_object, read_back
from tasks.protocol.storage import FsspecStorage


def equals_of(
    storage: FsspecStorage, output: OutputFolder, digests: Iterable[str]
) -> tuple[str, ...]:
    """Digests that count as these, which come first.

    Args:
        storage: of the output.
        output: its folders.
        digests: of one config, or of one model.
    """
    own = tuple(digests)
    known = set(own)
    files = [stat.path for stat in storage.list(output.equal_configs)]
    files = [path for path in files if path.endswith(".json")]
    words = asked_at_once(partial(word_at, storage), files)
    classes = [set(each) for word in words for each in word]
    while more := {each for one in classes if one & known for each in one} - known:
        known |= more
    return (*own, *sorted(known - {*own}))


def word_at(storage: FsspecStorage, path: str) -> list[list[str]]:
    """Digests that count as one, by a file; none where it is gone.

    Raises:
        InvalidSpec: it cannot be read.
    """

    def equal(content: bytes) -> list[list[str]]:
        found: list[list[str]] = json_object(content)["equal"]
        return found

    with suppress(FileNotFoundError):
        return read_back(storage, path, equal, "Delete it, and verify with --accept again")
    return []


def leave_word(
    storage: FsspecStorage,
    output: OutputFolder,
    equal: list[list[str]],
    evidence: dict[str, Any],
) -> None:
    """Say that configs give the same rows; to say it again changes nothing.

    Args:
        storage: of the output.
        output: its folders.
        equal: digests that count as one, those of configs and those of their models.
        evidence: how that was seen, for whoever asks.
    """
    words = json.dumps({"equal": equal, **evidence})
    name = hashlib.sha256(json.dumps(equal).encode()).hexdigest()[:16]
    storage.write(f"{output.equal_configs}/{name}.json", words.encode())
